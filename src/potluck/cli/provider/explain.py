"""`potluck provider explain`: why a machine gets no work, as it says and as the scheduler does."""

from potluck.cli.options import DataDirOption, JsonOption, ServerOption, connect
from potluck.cli.provider.dashboard import reasons
from potluck.cli.provider.machine import NO_WALLS, MachineView, told_by_itself
from potluck.cli.provider.target import NodeOption
from potluck.cli.terminal.screen import (
    Pane,
    Screen,
    Tone,
    printable,
)
from potluck.cli.terminal.units import show_count, show_seconds
from potluck.model.error import NotRunning, PotluckError
from potluck.provider.control.message import ProviderStatus
from potluck.wire.own_machines import NodeExplanation

# A provider hears of the server three times in this time if nothing is wrong.
_SILENT_SECONDS = 60.0


def explain_node(
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Say why this machine gets no work, and what would help."""
    screen = Screen(json)
    if node is None and server is None:
        here, said, why_not = _about_this_machine(data_dir)
    else:
        here, said, why_not = [], _about_another(node, server), None
    if json:
        screen.emit({"here": here, "scheduler": said, "scheduler_silent": why_not})
    else:
        _show(screen, here, said, why_not)


def _about_another(node: str | None, server: str | None) -> NodeExplanation:
    from potluck.cli.provider.remote import Elsewhere

    with connect(server) as potluck:
        return potluck.own_nodes.explain(Elsewhere(potluck, node).node_id)


def _about_this_machine(
    data_dir: str | None,
) -> tuple[list[str], NodeExplanation | None, str | None]:
    """What it says itself, what the scheduler says, and why that says nothing."""
    from potluck.cli.provider.local import Here, provider_directory

    machine = Here(provider_directory(data_dir))
    try:
        status = machine.status()
    except NotRunning as error:
        return [error.detail], None, error.hint
    try:
        with connect(status.url) as potluck:
            return own_reasons(status), potluck.own_nodes.explain(status.node_id), None
    except PotluckError as error:
        return own_reasons(status), None, f"{error.detail} {error.hint}"


def own_reasons(status: ProviderStatus) -> list[str]:
    """What keeps work away as this machine sees it; nothing where it knows of nothing."""
    machine = told_by_itself(status)
    found = list(machine.problems)
    if status.silent_seconds > _SILENT_SECONDS:
        silent = show_seconds(status.silent_seconds)
        found.append(f"The server at {status.url} has not answered for {silent}.")
    if status.is_draining:
        found.append("It is draining: it finishes what runs, takes nothing more, and ends.")
    if not status.sandbox.is_safe_for_strangers:
        found.append(NO_WALLS)
    return [*found, *_of_devices(machine)]


def _of_devices(machine: MachineView) -> list[str]:
    return [
        f"Device {device.number}: {reason}"
        for device in machine.devices
        for reason in reasons(device)
    ]


def _show(
    screen: Screen, here: list[str], said: NodeExplanation | None, why_not: str | None
) -> None:
    pane = screen.out
    for reason in here:
        pane.prose(printable(reason), Tone.WAITING)
    if said is not None:
        _show_scheduler(pane, said, is_away_told=bool(here))
    elif why_not:
        screen.err.prose(f"The scheduler was not asked. {printable(why_not)}", Tone.FAINT)


def _show_scheduler(pane: Pane, said: NodeExplanation, is_away_told: bool) -> None:
    pane.prose(printable(said.sentence), Tone.STRONG)
    for away in () if is_away_told else said.away:
        why = away.why or away.availability.replace("_", " ")
        pane.prose(printable(f"{away.model}: {why}"), first="  ", rest="  ")
    if said.reasons:
        pane.line()
        pane.line(f"Of {show_count(said.waiting, 'waiting task')}:", Tone.FAINT)
        for reason in said.reasons:
            pane.prose(printable(reason.sentence), first="  ", rest="  ")
    if said.changes:
        pane.line()
        pane.line("What would help:", Tone.FAINT)
        for change in said.changes:
            pane.prose(printable(change), Tone.GOOD, first="  ", rest="  ")
