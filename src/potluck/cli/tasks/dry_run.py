"""`--dry-run`: what a task would meet, before anything is uploaded or submitted."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from potluck.cli.request.options import TaskDraft, unsent
from potluck.cli.terminal.key_values import show_facts
from potluck.cli.terminal.screen import (
    Pane,
    Screen,
    Tone,
    printable,
)
from potluck.cli.terminal.units import (
    show_ahead,
    show_count,
    show_credits,
    show_seconds,
)
from potluck.local.project import Default
from potluck.model.task import TaskRequest
from potluck.wire.estimate import Estimate, Outlook

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_TONES = {Outlook.NOW: Tone.GOOD, Outlook.LATER: Tone.WAITING, Outlook.NEVER: Tone.BAD}
NEVER_STATUS = 1


def dry_run(
    potluck: "Potluck", draft: TaskDraft, screen: Screen, defaults: Sequence[Default] = ()
) -> int:
    """Shows it, and returns the exit status: 0 if the task would start, be it later."""
    request = unsent(potluck, draft)
    said = potluck.tasks.estimate(request)
    if screen.json:
        screen.emit({**msgspec.to_builtins(said), "defaults": defaults})
    else:
        _show(screen.out, request, said, datetime.now(UTC))
        _list(screen.out, "Not typed, but said elsewhere:", [_from(each) for each in defaults])
        screen.err.line("Nothing was uploaded or submitted.", Tone.FAINT)
    return NEVER_STATUS if said.outlook is Outlook.NEVER else 0


def _show(pane: Pane, request: TaskRequest, said: Estimate, now: datetime) -> None:
    for line in pane.wrapped(printable(said.sentence)):
        pane.line(line, _TONES[said.outlook])
    pane.line()
    show_facts(
        pane,
        {
            "devices": _devices(said),
            "price": _price(said),
            "hold": _hold(request, said),
            "cost": _cost(request, said),
            "balance": _balance(said),
            "starts": _start(said, now),
            "takes": _takes(request, said),
        },
    )
    _list(pane, f"Of {show_count(said.nodes, 'node')}:", [each.sentence for each in said.refusals])
    _list(pane, "What would help:", said.changes, Tone.GOOD)


def _list(pane: Pane, title: str, sentences: list[str], tone: Tone = Tone.PLAIN) -> None:
    if sentences:
        pane.line()
        pane.line(title, Tone.FAINT)
        for sentence in sentences:
            pane.prose(printable(sentence), tone, "  ", "  ")


def _from(default: Default) -> str:
    value = default.value
    text = ", ".join(value) if isinstance(value, list) else f"{value}"
    return f"{default.key} = {text} ({default.where})"


def _devices(said: Estimate) -> str:
    if not said.suitable_devices:
        return f"none of {show_count(said.nodes, 'node')} has one that suits it"
    where = f"on {said.suitable_nodes:,} of {show_count(said.nodes, 'node')}"
    return f"{said.free_devices:,} free of {said.suitable_devices:,} that suit it, {where}"


def _price(said: Estimate) -> str:
    least, most = said.cheapest_micro_per_hour, said.dearest_micro_per_hour
    if least is None or most is None:
        return ""
    return "nothing" if most == 0 else f"{_between(least, most)} credits an hour"


def _between(least: int, most: int) -> str:
    low, high = show_credits(least), show_credits(most)
    return low if low == high else f"{low} to {high}"


def _hold(request: TaskRequest, said: Estimate) -> str:
    if not said.most_micro or said.hold_micro is None:
        return ""
    of = "an attempt" if request.items is None else "each item"
    limit = show_seconds(request.limits.run_seconds)
    return (
        f"{_credits(said.hold_micro)} or more are set aside while {of} runs, for its"
        f" time limit of {limit}; what it does not use comes back"
    )


def _cost(request: TaskRequest, said: Estimate) -> str:
    if not said.most_micro:
        return ""
    parts = [f"at most {_credits(said.most_micro)}"]
    if request.max_attempts > 1:
        parts[0] += f" for {request.max_attempts} tries"
    if said.expected_micro is not None and said.expected_seconds is not None:
        each = "" if request.items is None else " an item"
        took = f"{show_seconds(said.expected_seconds)}{each}"
        parts.append(f"about {show_credits(said.expected_micro)} if it takes {took}")
    return "; ".join(parts)


def _balance(said: Estimate) -> str:
    if not said.most_micro:
        return ""
    have = _credits(said.available_micro)
    if not said.can_pay:
        return f"{have}: too little"
    is_enough = said.available_micro >= said.most_micro
    return f"{have}: enough" if is_enough else f"{have}: enough to begin with"


def _credits(micro: int) -> str:
    amount = show_credits(micro)
    return f"{amount} credit" if amount == "1" else f"{amount} credits"


def _start(said: Estimate, now: datetime) -> str:
    basis = "" if said.basis is None else f": {printable(said.basis)}"
    if said.outlook is Outlook.NOW:
        return f"now{basis}"
    if said.estimated_start is not None:
        return f"in about {show_ahead(said.estimated_start, now)}{basis}"
    return "later; nobody knows when" if said.outlook is Outlook.LATER else "never, as things are"


def _takes(request: TaskRequest, said: Estimate) -> str:
    if said.expected_seconds is None:
        return ""
    each = show_seconds(said.expected_seconds)
    if request.items is None:
        return f"about {each}"
    if said.whole_seconds is None:
        return f"about {each} an item"
    items = show_count(request.items, "item")
    return f"about {show_seconds(said.whole_seconds)} for {items}, if all that suit it work on it"
