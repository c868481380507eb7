"""`potluck doctor`: checks everything that this machine needs, with a fix for each problem."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from potluck.cli.doctor.finding import Check, CheckedMachine, CheckResult, Finding, MachineUse
from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
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
_INDENT = " " * 29  # the width of verdict and name


class _CheckGroup(Struct, frozen=True):
    """Checks that belong together; without a part, they apply to every use."""

    title: str
    check: Check
    part: MachineUse | None = None


def doctor(
    part: Annotated[
        MachineUse | None,
        typer.Argument(help="Check only this use; default: both.", show_default=False),
    ] = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Check this machine, and show how to fix problems.

    The exit status is 1 if a check failed, else 0.
    """
    from potluck.local.log import silent_logs

    screen, machines = Screen(json), _checked_machines(data_dir, server, part)
    with silent_logs():
        findings = [
            finding
            for group in _check_groups(part, machines)
            for finding in _run_and_show(screen, group, machines[group.part or MachineUse.CONSUMER])
        ]
    is_well = all(finding.verdict is not CheckResult.FAIL for finding in findings)
    if json:
        screen.emit({"is_well": is_well, "findings": findings})
    else:
        _show_summary(screen.out, findings)
    if not is_well:
        raise typer.Exit(_FAILED_STATUS)


def _run_and_show(screen: Screen, group: _CheckGroup, machine: CheckedMachine) -> Iterator[Finding]:
    """Yields the findings, and shows each one immediately unless the output is JSON."""
    if not screen.json:
        screen.out.line(group.title, Tone.STRONG)
    for finding in _run_checks(group, machine):
        if not screen.json:
            _show(screen.out, finding)
        yield finding


def _check_groups(
    part: MachineUse | None, machines: Mapping[MachineUse, CheckedMachine]
) -> list[_CheckGroup]:
    from potluck.cli.doctor.account import check_account
    from potluck.cli.doctor.data_directory import check_provider
    from potluck.cli.doctor.devices import check_devices
    from potluck.cli.doctor.package_index import check_package_index
    from potluck.cli.doctor.program import check_program
    from potluck.cli.doctor.sandbox import check_sandbox
    from potluck.cli.doctor.server import check_server
    from potluck.cli.doctor.terms import check_terms

    is_one_server = machines[MachineUse.CONSUMER].url == machines[MachineUse.PROVIDER].url
    groups = (
        _CheckGroup("This program", check_program),
        _CheckGroup("The server", check_server, None if is_one_server else MachineUse.CONSUMER),
        _CheckGroup("Your account", check_account, MachineUse.CONSUMER),
        *(() if is_one_server else (_CheckGroup("Its server", check_server, MachineUse.PROVIDER),)),
        _CheckGroup("The provider", check_provider, MachineUse.PROVIDER),
        _CheckGroup("Its terms", check_terms, MachineUse.PROVIDER),
        _CheckGroup("Its devices", check_devices, MachineUse.PROVIDER),
        _CheckGroup("Its sandbox", check_sandbox, MachineUse.PROVIDER),
        _CheckGroup("Its package index", check_package_index, MachineUse.PROVIDER),
    )
    return [group for group in groups if part is None or group.part in (None, part)]


def _run_checks(group: _CheckGroup, machine: CheckedMachine) -> Iterator[Finding]:
    """Failed provider checks are only warnings on a machine that does not provide."""
    is_needed = group.part is not MachineUse.PROVIDER or machine.is_providing
    for finding in group.check(machine):
        is_failed = finding.verdict is CheckResult.FAIL
        yield replace(finding, verdict=CheckResult.WARN) if is_failed and not is_needed else finding


def _checked_machines(
    data_dir: str | None, server: str | None, part: MachineUse | None
) -> Mapping[MachineUse, CheckedMachine]:
    """The provider may use another server than the consumer."""
    from potluck.cli.provider.local import provider_directory
    from potluck.consumer.identity.profile import choose_url

    directory = provider_directory(data_dir)
    has_key = os.path.exists(directory / "node-key")  # noqa: PTH110, Path's raises
    is_providing = part is MachineUse.PROVIDER or has_key
    named = choose_url(server) if server is not None else None
    consumer_url, provider_url = named or _saved_url(), named or _provider_url(directory)

    def machine(url: str | None) -> CheckedMachine:
        return CheckedMachine(url, _ca_file(url), directory, is_providing)

    return {
        MachineUse.CONSUMER: machine(consumer_url or provider_url),
        MachineUse.PROVIDER: machine(provider_url or consumer_url),
    }


def _saved_url() -> str | None:
    from potluck.consumer.identity.profile import choose_url

    try:
        return choose_url()
    except PotluckError:
        return None


def _provider_url(directory: Path) -> str | None:
    """The server of the running provider; if none runs, the only pool that it is in."""
    from potluck.cli.provider.local import LocalTarget
    from potluck.provider.data_directory import known_urls

    try:
        status = LocalTarget(directory).running()
        urls = [status.url] if status else known_urls(directory)
    except (PotluckError, OSError):  # reported by the checks of the directory and the provider
        return None
    return urls[0] if len(urls) == 1 else None


def _ca_file(url: str | None) -> Path | None:
    from potluck.consumer.http.connect import find_ca_file

    try:
        return find_ca_file(url) if url else None
    except PotluckError:  # a damaged profile; another check reports it
        return None


def _show(pane: Pane, finding: Finding) -> None:
    # Colours are added after wrapping, because they have no width.
    text = f"{finding.verdict:<7}  {finding.name:<17} {printable(finding.found)}"
    first, *others = pane.wrapped(text, first="  ", rest=_INDENT)
    verdict = pane.paint(first[2:9], _TONES[finding.verdict])
    pane.line(f"  {verdict}{first[9:]}")
    for line in others:
        pane.line(line)
    if finding.verdict in (CheckResult.WARN, CheckResult.FAIL):
        pane.prose(printable(finding.needed), Tone.FAINT, _titled("needed"), _INDENT)
        # Not wrapped, so that a command can be copied.
        pane.line(f"{_titled('fix')}{printable(finding.fix)}")


def _titled(title: str) -> str:
    return f"{title:>{len(_INDENT) - 2}}  "


def _show_summary(pane: Pane, findings: list[Finding]) -> None:
    counts = Counter(finding.verdict for finding in findings)
    parts = [f"{counts[result]} {_WORDS[result]}" for result in CheckResult if counts[result]]
    is_well = not counts[CheckResult.FAIL]
    pane.line(f"{len(findings)} checks: {', '.join(parts)}.", Tone.GOOD if is_well else Tone.BAD)
