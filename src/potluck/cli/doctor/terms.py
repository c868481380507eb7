"""Checks the owner's file: whether it can be read, and whether its settings make sense."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from potluck.cli.doctor.finding import CheckedMachine, Finding, failed_with, passed, skipped, warned
from potluck.cli.provider.local import LocalTarget
from potluck.model.error import PotluckError
from potluck.model.terms import TermsChange
from potluck.provider.owner.file import OwnerValues

_NEEDED = "terms that some task can meet"
_PYTHONS_FIX = (
    "Allow the hosts, name a mirror with POTLUCK_PROVIDER_PYTHON_LIST_URL, or"
    " potluck provider set fetch_python=no"
)
_POWER_FIX = "potluck provider set power_watts= (or another figure, or start it as root)"


def check_terms(machine: CheckedMachine) -> Iterator[Finding]:
    from potluck.provider.owner.file import read_file, terms_file

    path = terms_file(machine.directory)
    try:
        values = read_file(path)
        status = LocalTarget(machine.directory).running()
    except PotluckError as error:
        yield failed_with("provider.toml", error, "can be read")
        return
    found = str(path) if path.exists() else "none: the defaults apply"
    yield passed("provider.toml", found, "can be read")
    uuids = None if status is None else [device.description.uuid for device in status.devices]
    doubts = list(find_doubts(values, uuids))
    yield from (warned("terms", doubt, _NEEDED, fix) for doubt, fix in doubts)
    refusals = [device.refusal for device in status.devices if device.refusal] if status else []
    yield from (warned("terms", refusal, _NEEDED, _POWER_FIX) for refusal in refusals)
    if status is not None and status.pythons_problem:
        needed = "the hosts of the list of Pythons can be reached"
        yield warned("fetch_python", status.pythons_problem, needed, _PYTHONS_FIX)
    if not doubts and not refusals:
        yield passed("terms", "they do not exclude all work", _NEEDED)
    yield _check_presence(values)


def _check_presence(values: OwnerValues) -> Finding:
    """Whether this machine can detect its owner, which `idle_minutes` needs."""
    import asyncio

    from potluck.provider.owner.presence import look

    name, needed = "owner's presence", "detected, if idle_minutes is set"
    presence = asyncio.run(look())
    if presence.idle_seconds is not None:
        return passed(name, f"detected through {' and '.join(presence.through)}", needed)
    changes = (values.everywhere, *values.devices.values())
    if any(isinstance(change.idle_minutes, float) and change.idle_minutes for change in changes):
        fix = "Limit the hours instead: potluck provider set hours=…"
        return warned(name, "cannot be detected; only the devices' own load counts", needed, fix)
    return skipped(name, "cannot be detected", needed)


def find_doubts(values: OwnerValues, uuids: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """Settings that are probably mistakes, each with a fix. `uuids` are the running devices."""
    for uuid in values.devices:
        if uuids is not None and uuid not in uuids:
            yield (
                f"they name {uuid}, and there is no such device",
                "Remove its table, or correct the uuid: potluck provider status --json",
            )
    for device, change in (("", values.everywhere), *values.devices.items()):
        yield from _find_doubts(change, device)


def _find_doubts(change: TermsChange, device: str) -> Iterator[tuple[str, str]]:
    whose, where = (f" of {device}", f" --device {device}") if device else ("", "")
    if change.is_paused is True:
        yield f"work{whose} is paused", f"potluck provider resume {device}".rstrip()
    allow, deny = _lower_wallets(change.allow), _lower_wallets(change.deny)
    if allow and allow <= deny:
        yield (
            f"they deny every wallet{whose} that they allow",
            f"potluck provider set deny={where}",
        )
    if change.sandbox == "none":
        yield (
            "only your own tasks are accepted: sandbox is none",
            "potluck provider set sandbox=bwrap",
        )
    if change.is_reclaimable is True and change.grace_seconds == 0:
        yield (
            f"tasks{whose} are stopped without a grace period",
            f"potluck provider set grace=30s{where}",
        )
    if isinstance(change.memory_share, float) and change.memory_share < 0.1:
        yield (
            f"tasks get only {change.memory_share:.0%} of the device's memory{whose}",
            f"potluck provider set memory_share=1{where}",
        )


def _lower_wallets(wallets: object) -> set[str]:
    return set() if wallets in (UNSET, None) else {wallet.lower() for wallet in wallets}  # type: ignore[attr-defined]
