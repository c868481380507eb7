"""The names for groups of hosts, in `presets.toml`, and the operator's own."""

import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from potluck.model.error import BadSettings, InvalidInput
from potluck.model.network.patterns import NONE, OPEN, RAW, Presets, read_pattern


class _PresetFile(Struct, frozen=True, forbid_unknown_fields=True):
    presets: dict[str, tuple[str, ...]]


@cache
def load_presets(own: Path | None = None) -> Presets:
    """The presets of this version, with those of the file `own`; raises BadSettings."""
    shipped = _read(files("potluck.local.network").joinpath("presets.toml").read_text())
    if own is None:
        return shipped
    try:
        return {**shipped, **_read(own.read_text())}
    except (OSError, ValueError, InvalidInput, msgspec.ValidationError) as error:
        why = error.detail if isinstance(error, InvalidInput) else f"{error}."
        raise BadSettings(
            f"The network presets in {own} cannot be used: {why}",
            'Write them like [presets] and name = ["example.org", "*.example.org:8443"].',
        ) from error


def _read(text: str) -> dict[str, tuple[str, ...]]:
    presets = msgspec.convert(tomllib.loads(text), _PresetFile).presets
    for name, hosts in presets.items():
        is_plain = name.replace("-", "").isalnum() and name == name.lower()
        if not is_plain or name in (NONE, OPEN, RAW):
            raise InvalidInput(
                f"{name!r} is not a valid name for a preset.", "Use letters, digits and -."
            )
        for host in hosts:
            read_pattern(host)
    return presets
