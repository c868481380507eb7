"""`potluck doctor`: everything that this machine needs, looked at one by one, each with a fix."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from potluck.cli.doctor.finding import (
    Check,
    CheckResult,
    Finding,
    MachineUse,
    Patient,
)
from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.terminal.screen import (
    Pane,
    Screen,
    Tone,
    printable,
)
from potluck.model.error import PotluckError

_TONES = {
    CheckResult.OK: Tone.GOOD,
    CheckResult.WARN: Tone.WAITING,
    CheckResult.FAIL: Tone.BAD,
    CheckResult.SKIPPED: Tone.FAINT,
}
_WORDS = {
    CheckResult.OK: "fine",
    CheckResult.WARN: "to look at",
    CheckResult.FAIL: "failed",
    CheckResult.SKIPPED: "skipped",
}
_FAILED_STATUS = 1
_INDENT = " " * 29  # verdict and name stand before it


class _Subject(Struct, frozen=True):
    """Checks that belong together; without a part, they are for everybody."""

    title: str
    check: Check
    part: MachineUse | None = None


def doctor(
    part: Annotated[
        MachineUse | None,
        typer.Argument(help="Only for this. Without it, for both.", show_default=False),
    ] = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Look at all that this machine needs, and say what to do.

    Ends with 0 unless a check failed, and with 1 if one did.
    """
    from potluck.local.log import silent_logs

    screen, patients = Screen(json), _patients(data_dir, server, part)
    with silent_logs():
        found = [
            each
            for subject in _subjects(part, patients)
            for each in _told(screen, subject, patients[subject.part or MachineUse.CONSUMER])
        ]
    is_well = all(each.verdict is not CheckResult.FAIL for each in found)
    if json:
        screen.emit({"is_well": is_well, "findings": found})
    else:
        _sum_up(screen.out, found)
    if not is_well:
        raise typer.Exit(_FAILED_STATUS)


def _told(screen: Screen, subject: _Subject, patient: Patient) -> Iterator[Finding]:
    """What it finds; a person is shown it as it comes."""
    if not screen.json:
        screen.out.line(subject.title, Tone.STRONG)
    for finding in _looked(subject, patient):
        if not screen.json:
            _show(screen.out, finding)
        yield finding


def _subjects(part: MachineUse | None, patients: Mapping[MachineUse, Patient]) -> list[_Subject]:
    from potluck.cli.doctor.account import look_at_account
    from potluck.cli.doctor.data_directory import look_at_place
    from potluck.cli.doctor.devices import look_at_devices
    from potluck.cli.doctor.package_index import look_at_index
    from potluck.cli.doctor.program import look_at_program
    from potluck.cli.doctor.sandbox import look_at_sandbox
    from potluck.cli.doctor.server import look_at_server
    from potluck.cli.doctor.terms import look_at_terms

    is_one_server = patients[MachineUse.CONSUMER].url == patients[MachineUse.PROVIDER].url
    subjects = (
        _Subject("This program", look_at_program),
        _Subject("The server", look_at_server, None if is_one_server else MachineUse.CONSUMER),
        _Subject("Your account", look_at_account, MachineUse.CONSUMER),
        *(() if is_one_server else (_Subject("Its server", look_at_server, MachineUse.PROVIDER),)),
        _Subject("The provider", look_at_place, MachineUse.PROVIDER),
        _Subject("Its terms", look_at_terms, MachineUse.PROVIDER),
        _Subject("Its devices", look_at_devices, MachineUse.PROVIDER),
        _Subject("Its sandbox", look_at_sandbox, MachineUse.PROVIDER),
        _Subject("Its package index", look_at_index, MachineUse.PROVIDER),
    )
    return [each for each in subjects if part is None or each.part in (None, part)]


def _looked(subject: _Subject, patient: Patient) -> Iterator[Finding]:
    """Where nobody provides, what a provider lacks keeps nobody from anything."""
    is_needed = subject.part is not MachineUse.PROVIDER or patient.is_providing
    for finding in subject.check(patient):
        is_failed = finding.verdict is CheckResult.FAIL
        yield replace(finding, verdict=CheckResult.WARN) if is_failed and not is_needed else finding


def _patients(
    data_dir: str | None, server: str | None, part: MachineUse | None
) -> Mapping[MachineUse, Patient]:
    """A provider's server need not be the one that one sends tasks to from here."""
    from potluck.cli.provider.local import provider_directory
    from potluck.consumer.identity.profile import chosen_url

    directory = provider_directory(data_dir)
    has_key = os.path.exists(directory / "node-key")  # noqa: PTH110, Path's raises
    is_providing = part is MachineUse.PROVIDER or has_key
    named = chosen_url(server) if server is not None else None
    saved, its = named or _saved_url(), named or _its_url(directory)

    def patient(url: str | None) -> Patient:
        return Patient(url, _ca_file(url), directory, is_providing)

    return {MachineUse.CONSUMER: patient(saved or its), MachineUse.PROVIDER: patient(its or saved)}


def _saved_url() -> str | None:
    """The profile's, if it can be read."""
    from potluck.consumer.identity.profile import chosen_url

    try:
        return chosen_url()
    except PotluckError:
        return None


def _its_url(directory: Path) -> str | None:
    """Of the provider that runs here; where none does, of the only pool that it is in."""
    from potluck.cli.provider.local import Here
    from potluck.provider.data_directory import known_urls

    try:
        status = Here(directory).running()
        known = [status.url] if status else known_urls(directory)
    except (PotluckError, OSError):  # told by the checks of the directory and the provider
        return None
    return known[0] if len(known) == 1 else None


def _ca_file(url: str | None) -> Path | None:
    from potluck.consumer.http.connect import ca_file_for

    try:
        return ca_file_for(url) if url else None
    except PotluckError:  # a damaged profile, which is a finding of its own
        return None


def _show(pane: Pane, finding: Finding) -> None:
    # The colour is put in when the lines are broken: it takes no room.
    said = f"{finding.verdict:<7}  {finding.name:<17} {printable(finding.found)}"
    first, *others = pane.wrapped(said, first="  ", rest=_INDENT)
    verdict = pane.paint(first[2:9], _TONES[finding.verdict])
    pane.line(f"  {verdict}{first[9:]}")
    for line in others:
        pane.line(line)
    if finding.verdict in (CheckResult.WARN, CheckResult.FAIL):
        pane.prose(printable(finding.needed), Tone.FAINT, _titled("needed"), _INDENT)
        # Not broken: a command is copied whole.
        pane.line(f"{_titled('fix')}{printable(finding.fix)}")


def _titled(title: str) -> str:
    return f"{title:>{len(_INDENT) - 2}}  "


def _sum_up(pane: Pane, found: list[Finding]) -> None:
    counted = Counter(each.verdict for each in found)
    parts = [f"{counted[each]} {_WORDS[each]}" for each in CheckResult if counted[each]]
    is_well = not counted[CheckResult.FAIL]
    pane.line(f"{len(found)} checks: {', '.join(parts)}.", Tone.GOOD if is_well else Tone.BAD)
