"""`potluck rewards`: what my machines contributed and earned, and how it is paid."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.account.ensure_signed_in import owner_client
from potluck.cli.options import JsonOption, ServerOption
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_list, show_table
from potluck.model.credit import RewardsTo
from potluck.model.error import NotFound, Unavailable
from potluck.model.units import parse_moment, show_amount, show_count, show_credits, show_seconds
from potluck.wire.money.rewards import (
    Contribution,
    DeviceContribution,
    OwnEpoch,
    PayoutView,
    Rewards,
)

if TYPE_CHECKING:
    from potluck.consumer import Potluck

LimitOption = Annotated[int, typer.Option(min=1, max=10_000, help="How many of the newest.")]


class PayoutSwitch(StrEnum):
    """Whether rewards are paid outside the pool."""

    ON = "on"
    OFF = "off"


def show_rewards(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Such as 30d (ago) or 2026-01-31; from that day on.")
    ] = "30d",
    each: Annotated[bool, typer.Option("--each", help="One line per device.")] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show what my machines contributed and earned, and where the rewards are."""
    screen = Screen(json)
    first = parse_moment(since, "--since", datetime.now(UTC)).astimezone(UTC).date()
    with owner_client(screen, server) as potluck:
        report = potluck.rewards.get(first)
        claimable_text = "" if json else _claimable_text(potluck, report)
    if json:
        screen.emit(report)
        return
    _show_waterfall(screen.out, report, claimable_text)
    screen.out.line()
    _show_contribution(screen.out, report, each)


def choose_payout(
    choice: Annotated[PayoutSwitch, typer.Argument(metavar="on|off", show_default=False)],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Choose whether rewards are paid outside the pool, or stay credits."""
    screen = Screen(json)
    rewards_to = RewardsTo.PAYOUT if choice is PayoutSwitch.ON else RewardsTo.CREDITS
    with owner_client(screen, server) as potluck:
        potluck.rewards.choose(rewards_to)
    if json:
        screen.emit({"rewards_to": rewards_to})
    elif rewards_to is RewardsTo.PAYOUT:
        screen.out.line("Rewards are set aside for a payout at the end of each epoch.")
    else:
        screen.out.line("Rewards stay credits. What can already be claimed will still be paid.")


def own_epochs(
    limit: LimitOption = 30, server: ServerOption = None, json: JsonOption = False
) -> None:
    """List the epochs in which I earned."""
    screen = Screen(json)
    with owner_client(screen, server) as potluck:
        epochs = list(islice(potluck.rewards.epochs(), limit))
    show_list(screen, "epochs", epochs, _show_epochs, "No epoch with earnings has been closed yet.")


def _show_epochs(pane: Pane, epochs: Sequence[OwnEpoch]) -> None:
    columns = [TableColumn("EPOCH", is_number=True), TableColumn("ENDED")]
    columns += [_number(title) for title in ("EARNED", "FEE", "SET ASIDE", "IN ALL")]
    show_table(pane, columns, [_epoch_cells(epoch) for epoch in epochs])


def own_payouts(
    limit: LimitOption = 30, server: ServerOption = None, json: JsonOption = False
) -> None:
    """List what was paid to me."""
    screen = Screen(json)
    with owner_client(screen, server) as potluck:
        payouts = list(islice(potluck.rewards.payouts(), limit))
    show_list(screen, "payouts", payouts, _show_payouts, "Nothing has been paid yet.")


def _show_payouts(pane: Pane, payouts: Sequence[PayoutView]) -> None:
    columns = [TableColumn("RECORDED"), _number("CREDITS"), TableColumn("ID", shrinks=True)]
    columns.append(TableColumn("REFERENCE", shrinks=True))
    show_table(pane, columns, [_payout_cells(payout) for payout in payouts])


def _claimable_text(potluck: "Potluck", report: Rewards) -> str:
    """How it leaves the pool: by the contract, if there is one."""
    by_hand = "set aside for a payout"
    if not report.claimable_micro:
        return by_hand
    try:
        contract = potluck.rewards.contract()
    except (NotFound, Unavailable):
        return by_hand
    if not contract.has_payouts:
        return by_hand
    if contract.stopped_because is not None:
        return "payouts have stopped: ask the pool's operator"
    try:
        ready_micro = potluck.rewards.claim_proof().claimable_micro
    except NotFound:
        ready_micro = 0
    if ready_micro:
        return f"`potluck claim` gets {show_credits(ready_micro)} of it now"
    return "for `potluck claim`, once the contract has accepted its root"


def _show_waterfall(pane: Pane, report: Rewards, claimable_text: str) -> None:
    net_micro = report.earned_micro - report.fee_micro
    set_aside = report.claimable_micro + report.paid_micro
    steps = [
        ("earned", report.earned_micro, "paid for work of my machines, ever"),
        ("- fee", report.fee_micro, "the operator's part"),
        (
            "- credits",
            net_micro - report.in_epoch_micro - set_aside,
            "stayed credits, or were spent",
        ),
        ("- in epoch", report.in_epoch_micro, _epoch_text(report)),
        ("- claimable", report.claimable_micro, claimable_text),
        ("= paid", report.paid_micro, "by the operator, or by the contract"),
    ]
    columns = [TableColumn("REWARDS"), _number("CREDITS"), TableColumn("", shrinks=True)]
    rows = [
        [Cell(name, Tone.STRONG), Cell(show_credits(micro)), Cell(text, Tone.FAINT)]
        for name, micro, text in steps
    ]
    show_table(pane, columns, rows)
    if report.held_back_micro:
        pane.line(f"Held back for attempts that still run: {show_amount(report.held_back_micro)}.")
    if report.rewards_to is RewardsTo.CREDITS:
        pane.line(
            "Rewards stay credits. `potluck rewards payout on` has them paid out.", Tone.FAINT
        )


def _epoch_text(report: Rewards) -> str:
    if report.epoch is None:
        return "the first epoch has not begun"
    ends_at = report.epoch.ends_at.astimezone()
    return f"epoch {report.epoch.number}, until {ends_at:%Y-%m-%d %H:%M}"


def _show_contribution(pane: Pane, report: Rewards, each: bool) -> None:
    total = report.total
    if each and report.devices:
        columns = [TableColumn("NODE", shrinks=True), TableColumn("DEVICE", shrinks=True)]
        titles = ("OFFERED", "ASSIGNED", "WORKED", "ATTEMPTS", "EARNED", "FEE", "HELD BACK")
        columns += [_number(title) for title in titles]
        show_table(pane, columns, [_device_cells(device) for device in report.devices])
    attempts = show_count(total.attempts, "attempt")
    pane.line(
        f"Since {report.since}: {show_seconds(total.offered_seconds)} offered, "
        f"{show_seconds(total.assigned_seconds)} assigned, "
        f"{show_seconds(total.worked_seconds)} worked, {attempts}."
    )
    held_back = f", of that {show_amount(total.held_back_micro)} held back"
    pane.line(
        f"For it: {show_amount(total.earned_micro)}{held_back if total.held_back_micro else ''}; "
        f"fee {show_amount(total.fee_micro)}."
    )
    pane.prose(
        "Time is counted for each device, and a share of a device as its part."
        " `potluck provider earnings` has the same by day.",
        Tone.FAINT,
    )


def _device_cells(device: DeviceContribution) -> list[Cell]:
    text = device.model or ("several" if device.device_id is None else short_id(device.device_id))
    cells = [Cell(printable(device.node_name), Tone.STRONG), Cell(printable(text))]
    return [*cells, *(Cell(figure) for figure in _figures(device.contribution))]


def _figures(figures: Contribution) -> list[str]:
    return [
        show_seconds(figures.offered_seconds),
        show_seconds(figures.assigned_seconds),
        show_seconds(figures.worked_seconds),
        f"{figures.attempts:,}",
        show_credits(figures.earned_micro),
        show_credits(figures.fee_micro),
        show_credits(figures.held_back_micro),
    ]


def _epoch_cells(epoch: OwnEpoch) -> list[Cell]:
    amounts = (epoch.earned_micro, epoch.fee_micro, epoch.amount_micro, epoch.cumulative_micro)
    ended = f"{epoch.ends_at.astimezone():%Y-%m-%d %H:%M}"
    cells = [Cell(str(epoch.number), Tone.STRONG), Cell(ended)]
    return [*cells, *(Cell(show_credits(micro)) for micro in amounts)]


def _payout_cells(payout: PayoutView) -> list[Cell]:
    return [
        Cell(f"{payout.recorded_at.astimezone():%Y-%m-%d %H:%M}"),
        Cell(show_credits(payout.amount_micro), Tone.GOOD),
        *(Cell(printable(payout.id)), Cell(printable(payout.reference))),
    ]


def _number(title: str) -> TableColumn:
    return TableColumn(title, is_number=True)
