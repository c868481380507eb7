"""The owner's file: whether it can be read, and whether what it says can be meant."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from potluck.cli.doctor.finding import Finding, Patient, failed_by, odd, skipped, well
from potluck.cli.provider.local import Here
from potluck.model.error import PotluckError
from potluck.model.terms import TermsChange
from potluck.provider.owner.file_values import OwnerValues

_NEEDED = "terms that somebody can meet"
_ANOTHER = "potluck provider set power_watts= (or another figure, or start it as root)"


def look_at_terms(patient: Patient) -> Iterator[Finding]:
    from potluck.provider.owner.file import read_file, terms_file

    path = terms_file(patient.directory)
    try:
        said = read_file(path)
        status = Here(patient.directory).running()
    except PotluckError as error:
        yield failed_by("provider.toml", error, "can be read")
        return
    found = str(path) if path.exists() else "none: the defaults hold"
    yield well("provider.toml", found, "can be read")
    known = None if status is None else [each.description.uuid for each in status.devices]
    doubts = list(doubts_about(said, known))
    yield from (odd("terms", doubt, _NEEDED, fix) for doubt, fix in doubts)
    refusals = [each.refusal for each in status.devices if each.refusal] if status else []
    yield from (odd("terms", refusal, _NEEDED, _ANOTHER) for refusal in refusals)
    if not doubts and not refusals:
        yield well("terms", "nothing in them keeps all work away", _NEEDED)
    yield _presence(said)


def _presence(said: OwnerValues) -> Finding:
    """Whether `idle_minutes` has anything to go by here."""
    import asyncio

    from potluck.provider.owner.presence import look

    name, needed = "owner's presence", "known, where idle_minutes is set"
    seen = asyncio.run(look())
    if seen.idle_seconds is not None:
        return well(name, f"known through {' and '.join(seen.through)}", needed)
    changes = (said.everywhere, *said.devices.values())
    if any(isinstance(each.idle_minutes, float) and each.idle_minutes for each in changes):
        fix = "Say when it may work instead: potluck provider set hours=…"
        return odd(name, "nothing here tells of it; only the devices' own load counts", needed, fix)
    return skipped(name, "nothing here tells of it", needed)


def doubts_about(said: OwnerValues, known: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """What nobody would say on purpose, each with a way out. `known` are the devices that run."""
    for uuid in said.devices:
        if known is not None and uuid not in known:
            yield (
                f"they speak of {uuid}, and there is no such device",
                "Take its table out of the file, or mend the uuid: potluck provider status --json",
            )
    for named, change in (("", said.everywhere), *said.devices.items()):
        yield from _doubts(change, named)


def _doubts(change: TermsChange, device: str) -> Iterator[tuple[str, str]]:
    whose, where = (f" of {device}", f" --device {device}") if device else ("", "")
    if change.is_paused is True:
        yield f"work{whose} is paused", f"potluck provider resume {device}".rstrip()
    allow, deny = _wallets(change.allow), _wallets(change.deny)
    if allow and allow <= deny:
        yield (
            f"everybody whom they allow{whose} they also deny",
            f"potluck provider set deny={where}",
        )
    if change.sandbox == "none":
        yield "only your own tasks are taken: sandbox is none", "potluck provider set sandbox=bwrap"
    if change.is_reclaimable is True and change.grace_seconds == 0:
        yield (
            f"tasks{whose} are stopped without a moment to end in",
            f"potluck provider set grace=30s{where}",
        )
    if isinstance(change.memory_share, float) and change.memory_share < 0.1:
        yield (
            f"tasks get only {change.memory_share:.0%} of the device's memory{whose}",
            f"potluck provider set memory_share=1{where}",
        )


def _wallets(said: object) -> set[str]:
    return set() if said in (UNSET, None) else {wallet.lower() for wallet in said}  # type: ignore[attr-defined]
