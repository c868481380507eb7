"""A provider's announcements as lines for a person."""

from datetime import datetime
from typing import assert_never

from potluck.cli.provider.machine import own_tasks_only_sentence
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.device import Availability, DeviceDescription, Standing
from potluck.model.node import SandboxReport
from potluck.model.task import EndReason
from potluck.model.units import show_bytes, show_credits, show_seconds
from potluck.provider.announcement import (
    Announcement,
    AttemptFinished,
    AttemptPreparing,
    AttemptStarted,
    AttemptStopped,
    AvailabilityChanged,
    DeviceRegained,
    DeviceUnbound,
    Draining,
    OfferRefused,
    OptionsOverridden,
    PowerRefused,
    RegistrationDone,
    ServerAnswers,
    ServerSilent,
    Stopped,
    TermsRead,
    TermsWrong,
    VersionSkew,
)


def show_announcement(screen: Screen, announcement: Announcement) -> None:  # noqa: C901, the table of them
    pane = screen.out
    match announcement:
        case RegistrationDone():
            _introduce(pane, announcement)
        case AttemptPreparing(_, task_id):
            _line(pane, f"preparing {task_id}", Tone.BUSY)
        case AttemptStarted(_, task_id):
            _line(pane, f"running   {task_id}", Tone.BUSY)
        case AttemptFinished():
            _finished(pane, announcement)
        case AttemptStopped(_, task_id):
            _line(pane, f"stopped   {task_id}", Tone.FAINT)
        case DeviceUnbound() | DeviceRegained():
            _device(screen, announcement)
        case AvailabilityChanged():
            _availability(pane, announcement)
        case TermsRead() | TermsWrong() | OptionsOverridden() | OfferRefused() | PowerRefused():
            _terms(screen, announcement)
        case Draining(attempts, is_for_good):
            wait = f"{attempts} running" if attempts else "no tasks running"
            then = "leaves the pool permanently" if is_for_good else "stops"
            _line(pane, f"Draining: {wait}, takes no new tasks, then {then}.", Tone.WAITING)
        case VersionSkew(_, _, detail, hint):
            _line(screen.err, f"{detail} {hint}", Tone.WAITING)
        case ServerSilent(_, detail, hint):
            _line(screen.err, f"{detail} Retrying; running tasks continue. {hint}", Tone.WAITING)
        case ServerAnswers(silent_seconds):
            _line(
                screen.err,
                f"The server answers again after {show_seconds(silent_seconds)}.",
                Tone.GOOD,
            )
        case Stopped():
            _line(pane, "Stopped. This machine has left the pool.", Tone.FAINT)
        case _:
            assert_never(announcement)


def _introduce(pane: Pane, registered: RegistrationDone) -> None:
    columns = [
        TableColumn("DEVICE"),
        TableColumn("MODEL", shrinks=True),
        TableColumn("MEMORY", is_number=True),
        TableColumn("INTERFACE"),
        TableColumn("PRICE", is_number=True),
    ]
    show_table(pane, columns, [_device_row(device) for device in registered.devices])
    pane.line(f"Sandbox: {_sandbox(registered.sandbox)}")
    for note in registered.sandbox.notes:
        pane.line(f"  {printable(note)}", Tone.FAINT)
    if registered.containers is not None:
        pane.line(f"Images: {_sandbox(registered.containers)}")
    _warn_of_own_tasks(pane, registered)
    pane.line(
        f"{printable(registered.name)} is in the pool at {registered.url}. Ctrl-C removes it.",
        Tone.GOOD,
    )


def _warn_of_own_tasks(pane: Pane, registered: RegistrationDone) -> None:
    sentences = [own_tasks_only_sentence(registered.sandbox)]
    if registered.containers is not None:
        sentences.append(own_tasks_only_sentence(registered.containers, "images"))
    for sentence in filter(None, sentences):
        pane.prose(printable(sentence), Tone.WAITING)


def _device_row(device: DeviceDescription) -> list[Cell]:
    price = device.terms.price_micro_per_hour
    return [
        Cell(device.kind.upper(), Tone.STRONG),
        Cell(device.model),
        Cell(show_bytes(device.memory_bytes)),
        Cell(device.interface),
        Cell(f"{show_credits(price)}/h" if price else "free"),
    ]


def _sandbox(report: SandboxReport) -> str:
    """The driver, and the mechanism behind each limit."""
    limits = ("memory", "processes", "cpu", "disk", "network", "syscalls", "user")
    parts = [f"{limit} by {getattr(report, limit)}" for limit in limits]
    return printable(f"{report.driver} ({', '.join(parts)})")


def _finished(pane: Pane, finished: AttemptFinished) -> None:
    is_good = finished.reason is EndReason.COMPLETED
    reason = "" if is_good else f": {finished.detail or finished.reason.facts.meaning}"
    text = f"finished  {finished.task_id} after {show_seconds(finished.run_seconds)}{reason}"
    _line(pane, text, Tone.GOOD if is_good else Tone.BAD)


def _device(screen: Screen, announcement: DeviceUnbound | DeviceRegained) -> None:
    device = f"{announcement.model} ({announcement.uuid}) is"
    if isinstance(announcement, DeviceRegained):
        _line(screen.out, f"{device} now bound to your wallet, and gets work.", Tone.GOOD)
    else:
        _line(screen.err, f"{device} {_WHY_NOT[announcement.standing]}", Tone.WAITING)


def _availability(pane: Pane, announcement: AvailabilityChanged) -> None:
    device = f"{announcement.model} ({announcement.uuid})"
    if announcement.availability is Availability.AVAILABLE:
        _line(pane, f"{device} takes work.", Tone.GOOD)
    else:
        _line(pane, f"{device} takes no new work. {announcement.why}", Tone.WAITING)


def _terms(
    screen: Screen,
    announcement: TermsRead | TermsWrong | OptionsOverridden | OfferRefused | PowerRefused,
) -> None:
    match announcement:
        case TermsRead():
            _line(screen.out, "Your new terms are in effect.", Tone.GOOD)
        case TermsWrong(detail, hint):
            _line(screen.err, f"{detail} {hint}", Tone.BAD)
        case OptionsOverridden(options, terms_file):
            option_names = ", ".join(options)
            _line(screen.err, f"{terms_file} overrides {option_names}.", Tone.WAITING)
        case OfferRefused(detail, hint):
            _line(screen.err, f"The server refuses the offer: {detail} {hint}", Tone.BAD)
        case PowerRefused(_, detail):
            _line(screen.err, detail, Tone.WAITING)


_OTHER_WALLET = "bound to another wallet, and gets no work."
_WHY_NOT = {
    Standing.ELSEWHERE: "offered by another node of your wallet, and gets no work here."
    " It will when that node leaves or goes silent.",
    Standing.CONTESTED: f"{_OTHER_WALLET} Both machines have to compute on it as proof;"
    " this one does so automatically.",
    Standing.FOREIGN: f"{_OTHER_WALLET} It becomes free when the other machine leaves the pool.",
}


def _line(pane: Pane, text: str, tone: Tone) -> None:
    clock = datetime.now().astimezone().strftime("%H:%M:%S")
    pane.line(f"{pane.paint(clock, Tone.FAINT)}  {pane.paint(printable(text), tone)}")
