"""`--dry-run`: shows the server's estimate for a task without uploading or submitting anything."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from potluck.cli.request.options import TaskDraft, prepare_estimate
from potluck.cli.terminal.key_values import show_key_values
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.local.project import Default
from potluck.model.task import TaskRequest
from potluck.model.units import show_ahead, show_amount, show_count, show_credits, show_seconds
from potluck.wire.estimate import Estimate, Outlook

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_TONES = {Outlook.NOW: Tone.GOOD, Outlook.LATER: Tone.WAITING, Outlook.NEVER: Tone.BAD}
NEVER_STATUS = 1


def dry_run(
    potluck: "Potluck", draft: TaskDraft, screen: Screen, defaults: Sequence[Default] = ()
) -> int:
    """Returns the exit status: 0 if the task would start, now or later."""
    request = prepare_estimate(potluck, draft)
    estimate = potluck.tasks.estimate(request)
    if screen.json:
        screen.emit({**msgspec.to_builtins(estimate), "defaults": defaults})
    else:
        _show(screen.out, request, estimate, datetime.now(UTC))
        _list(screen.out, "Options from elsewhere:", [_source(default) for default in defaults])
        screen.err.line("Nothing was uploaded or submitted.", Tone.FAINT)
    return NEVER_STATUS if estimate.outlook is Outlook.NEVER else 0


def _show(pane: Pane, request: TaskRequest, estimate: Estimate, now: datetime) -> None:
    for line in pane.wrapped(printable(estimate.sentence)):
        pane.line(line, _TONES[estimate.outlook])
    pane.line()
    show_key_values(
        pane,
        {
            "devices": _devices(estimate),
            "price": _price(estimate),
            "hold": _hold(request, estimate),
            "cost": _cost(request, estimate),
            "balance": _balance(estimate),
            "starts": _start(estimate, now),
            "takes": _takes(request, estimate),
        },
    )
    sentences = [refusal.sentence for refusal in estimate.refusals]
    _list(pane, f"Of {show_count(estimate.nodes, 'node')}:", sentences)
    _list(pane, "What would help:", estimate.changes, Tone.GOOD)


def _list(pane: Pane, title: str, sentences: list[str], tone: Tone = Tone.PLAIN) -> None:
    if sentences:
        pane.line()
        pane.line(title, Tone.FAINT)
        for sentence in sentences:
            pane.prose(printable(sentence), tone, "  ", "  ")


def _source(default: Default) -> str:
    value = default.value
    text = ", ".join(value) if isinstance(value, list) else f"{value}"
    return f"{default.key} = {text} ({default.where})"


def _devices(estimate: Estimate) -> str:
    if not estimate.suitable_devices:
        return f"none of {show_count(estimate.nodes, 'node')} has a suitable one"
    where = f"on {estimate.suitable_nodes:,} of {show_count(estimate.nodes, 'node')}"
    return f"{estimate.free_devices:,} of {estimate.suitable_devices:,} suitable ones free, {where}"


def _price(estimate: Estimate) -> str:
    least, most = estimate.cheapest_micro_per_hour, estimate.dearest_micro_per_hour
    if least is None or most is None:
        return ""
    low, high = show_credits(least), show_credits(most)
    amount = low if low == high else f"{low} to {high}"
    return "nothing" if most == 0 else f"{amount} credits an hour"


def _hold(request: TaskRequest, estimate: Estimate) -> str:
    if not estimate.most_micro or estimate.hold_micro is None:
        return ""
    unit = "an attempt" if request.items is None else "each item"
    limit = show_seconds(request.limits.run_seconds)
    return (
        f"{show_amount(estimate.hold_micro)} or more are reserved while {unit} runs, for its"
        f" time limit of {limit}; the unused part is returned"
    )


def _cost(request: TaskRequest, estimate: Estimate) -> str:
    if not estimate.most_micro:
        return ""
    parts = [f"at most {show_amount(estimate.most_micro)}"]
    if request.max_attempts > 1:
        parts[0] += f" for {request.max_attempts} attempts"
    if estimate.expected_micro is not None and estimate.expected_seconds is not None:
        unit = "" if request.items is None else " an item"
        duration = f"{show_seconds(estimate.expected_seconds)}{unit}"
        parts.append(f"about {show_credits(estimate.expected_micro)} if it takes {duration}")
    return "; ".join(parts)


def _balance(estimate: Estimate) -> str:
    if not estimate.most_micro:
        return ""
    balance = show_amount(estimate.available_micro)
    if not estimate.can_pay:
        return f"{balance}: too little"
    is_enough = estimate.available_micro >= estimate.most_micro
    return f"{balance}: enough" if is_enough else f"{balance}: enough to start"


def _start(estimate: Estimate, now: datetime) -> str:
    basis = "" if estimate.basis is None else f": {printable(estimate.basis)}"
    if estimate.outlook is Outlook.NOW:
        return f"now{basis}"
    if estimate.estimated_start is not None:
        return f"in about {show_ahead(estimate.estimated_start, now)}{basis}"
    return (
        "later, at an unknown time" if estimate.outlook is Outlook.LATER else "never, as things are"
    )


def _takes(request: TaskRequest, estimate: Estimate) -> str:
    if estimate.expected_seconds is None:
        return ""
    duration = show_seconds(estimate.expected_seconds)
    if request.items is None:
        return f"about {duration}"
    if estimate.whole_seconds is None:
        return f"about {duration} an item"
    items = show_count(request.items, "item")
    return (
        f"about {show_seconds(estimate.whole_seconds)} for {items}, if all suitable devices run it"
    )
