"""`potluck provider explain`: why a machine gets no work, by its own report and the scheduler's."""

from potluck.cli.options import DataDirOption, JsonOption, ServerOption, connect
from potluck.cli.provider.dashboard import device_reasons
from potluck.cli.provider.machine import MachineView, own_tasks_only_sentence, view_from_provider
from potluck.cli.provider.target import NodeOption
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.model.error import NotRunning, PotluckError
from potluck.model.units import show_count, show_seconds
from potluck.provider.control.message import ProviderStatus
from potluck.wire.own_machines import NodeExplanation

# Three heartbeats fit into this time.
_SILENT_SECONDS = 60.0


def explain_node(
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Explain why this machine gets no work, and what would help."""
    screen = Screen(json)
    if node is None and server is None:
        reasons, explanation, problem = _explain_local(data_dir)
    else:
        reasons, explanation, problem = [], _explain_remote(node, server), None
    if json:
        screen.emit({"here": reasons, "scheduler": explanation, "scheduler_silent": problem})
    else:
        _show(screen, reasons, explanation, problem)


def _explain_remote(node: str | None, server: str | None) -> NodeExplanation:
    from potluck.cli.provider.remote import RemoteTarget

    with connect(server) as potluck:
        return potluck.own_nodes.explain(RemoteTarget(potluck, node).node_id)


def _explain_local(data_dir: str | None) -> tuple[list[str], NodeExplanation | None, str | None]:
    """The machine's own reasons, the scheduler's explanation, and why there is none."""
    from potluck.cli.provider.local import LocalTarget, provider_directory

    machine = LocalTarget(provider_directory(data_dir))
    try:
        status = machine.status()
    except NotRunning as error:
        return [error.detail], None, error.hint
    try:
        with connect(status.url) as potluck:
            return local_reasons(status), potluck.own_nodes.explain(status.node_id), None
    except PotluckError as error:
        return local_reasons(status), None, f"{error.detail} {error.hint}"


def local_reasons(status: ProviderStatus) -> list[str]:
    """The reasons this machine knows of why it gets no work."""
    machine = view_from_provider(status)
    reasons = list(machine.problems)
    if status.silent_seconds > _SILENT_SECONDS:
        silent = show_seconds(status.silent_seconds)
        reasons.append(f"The server at {status.url} has not answered for {silent}.")
    if status.is_draining:
        reasons.append("It is draining: it finishes running tasks, takes no new ones, and stops.")
    if sentence := own_tasks_only_sentence(status.sandbox):
        reasons.append(sentence)
    return [*reasons, *_device_lines(machine)]


def _device_lines(machine: MachineView) -> list[str]:
    return [
        f"Device {device.number}: {reason}"
        for device in machine.devices
        for reason in device_reasons(device)
    ]


def _show(
    screen: Screen, reasons: list[str], explanation: NodeExplanation | None, problem: str | None
) -> None:
    pane = screen.out
    for reason in reasons:
        pane.prose(printable(reason), Tone.WAITING)
    if explanation is not None:
        _show_scheduler(pane, explanation, are_devices_shown=bool(reasons))
    elif problem:
        screen.err.prose(f"No explanation from the scheduler. {printable(problem)}", Tone.FAINT)


def _show_scheduler(pane: Pane, explanation: NodeExplanation, are_devices_shown: bool) -> None:
    pane.prose(printable(explanation.sentence), Tone.STRONG)
    if explanation.reliability:
        pane.prose(printable(explanation.reliability), Tone.WAITING)
    for away in () if are_devices_shown else explanation.away:
        why = away.why or away.availability.replace("_", " ")
        pane.prose(printable(f"{away.model}: {why}"), first="  ", rest="  ")
    if explanation.reasons:
        pane.line()
        pane.line(f"Of {show_count(explanation.waiting, 'waiting task')}:", Tone.FAINT)
        for reason in explanation.reasons:
            pane.prose(printable(reason.sentence), first="  ", rest="  ")
    if explanation.changes:
        pane.line()
        pane.line("What would help:", Tone.FAINT)
        for change in explanation.changes:
            pane.prose(printable(change), Tone.GOOD, first="  ", rest="  ")
