"""The kinds of values of task options: how they are written, and how they are parsed.

A value is either typed text or a value of TOML or Python. The latter is first converted to the
typed form, so that one parser reads both.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from potluck.model.blob import VolumeMount, check_mounts, shorten_name
from potluck.model.bounded_types import MOST_DEVICES
from potluck.model.error import InvalidInput
from potluck.model.network.patterns import parse_entries
from potluck.model.terms import WALLET_PATTERN
from potluck.model.units import (
    parse_bytes,
    parse_credits,
    parse_milli,
    parse_seconds,
    parse_vram,
    show_amount,
    show_bytes,
    show_seconds,
)

ME = "me"  # among owners: the account that submits


def _as_it_is(value: Any, _name: str) -> Any:
    return value


class ValueKind(Struct, frozen=True):
    """A kind of value. `spell` and `parse` get the option's name for their errors."""

    type: type[Any]  # of one value on the command line
    spell: Callable[[Any, str], Any]  # a value of TOML or Python, as it would be typed
    parse: Callable[[Any, str], Any] = _as_it_is  # typed text to the value in the request
    metavar: str | None = None
    is_list: bool = False
    least: float | None = None
    most: float | None = None
    show: Callable[[float], str] = "{:,.0f}".format  # a bound of the request, for people
    is_path: bool = False

    def read(self, value: Any, name: str) -> Any:
        """Converts a value of TOML or Python to the value in the request."""
        return self.parse(self.spell(value, name), name)


def _text(value: Any, name: str) -> str:
    if value == "":
        raise InvalidInput(f"{name} must not be empty.", "Write a value, or leave the option out.")
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a string.", "Write it in quotes.")
    return value


def _texts(value: Any, name: str) -> list[str]:
    """One string, or several."""
    is_single = isinstance(value, str | Mapping) or not isinstance(value, Iterable)
    return [_text(item, name) for item in ([value] if is_single else value)]


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be true or false.", "Write it without quotes.")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def whole_number(low: int, high: int) -> ValueKind:
    def spell(value: Any, name: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidInput(
                f"{name} must be a whole number from {low} to {high:,}.", "Write it without quotes."
            )
        return value

    return ValueKind(int, spell, least=low, most=high)


class GpuChoice(Struct, frozen=True):
    """How many GPUs, and of which model if it matters; 0: any device."""

    count: int = 0
    model: str | None = None


def _gpus(value: Any, name: str) -> str | int:
    """In Python and TOML also a number, or true for one GPU."""
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, str):
        raise _not_gpus(value, name)
    return value


# Numbers that are no model: 1e9, 1.5, 1,000, and those with more than five digits.
_NO_MODEL = re.compile(
    r"[-+]?[0-9]*[.,][0-9.,]*|[-+]?[0-9.]+e[-+]?[0-9]+|[-+]?[0-9]{6,}", re.IGNORECASE
)


# 2x4090, 2 x RTX 4090; a100x2, a100 x2. Not RTX 40, where the x belongs to a word.
_TIMES = re.compile(r"(?:([0-9]{1,2})\s*[x×]\s*(.+)|(.+[\s0-9×])[x×]([0-9]{1,2}))", re.IGNORECASE)


def _parse_gpus(text: str | int, name: str) -> GpuChoice:
    """A number, a model, or both: 2, a100, a100:2, 2x4090. Four digits are a model: 4090."""
    written = str(text).strip()
    if times := _TIMES.fullmatch(written):
        written = f"{times[2] or times[3].strip()}:{times[1] or times[4]}"
    if (
        ":" not in written
        and _NO_MODEL.fullmatch(written) is None
        and not re.fullmatch("-?[0-9]{0,3}", written)
    ):
        return GpuChoice(1, written)
    match = re.fullmatch(r"(?:(.*\S)\s*:)?\s*([0-9]{1,3})", written)
    if match is None or not (1 if match[1] else 0) <= int(match[2]) <= MOST_DEVICES:
        raise _not_gpus(text, name)
    return GpuChoice(int(match[2]), match[1])


def _not_gpus(value: Any, name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} {value!r} is not a number of GPUs up to {MOST_DEVICES}, a model, or MODEL:NUMBER.",
        'Write it like 2, a100, a100:2 or "rtx 40*".',
    )


def _share(value: Any, name: str) -> float:
    if not _is_number(value) or not 0 <= value <= 1:
        raise InvalidInput(f"{name} must be a number from 0 to 1.", "Such as 0.95.")
    return float(value)


def _measure(
    parse: Callable[[str, str], Any], metavar: str, show: Callable[[Any], str], unit: str = ""
) -> ValueKind:
    """A number with a unit; a bare number has the same default unit as on the command line."""

    def spell(value: Any, name: str) -> str:
        return f"{value}{unit}" if _is_number(value) else _text(value, name)

    return ValueKind(str, spell, parse, metavar, show=show)


def choice(words: type[StrEnum]) -> ValueKind:
    def spell(value: Any, name: str) -> str:
        return _one_of(tuple(words), value, name)

    return ValueKind(words, spell, lambda value, _name: words(value))


def choices(*words: str) -> ValueKind:
    def spell(value: Any, name: str) -> list[str]:
        return [_one_of(words, word, name) for word in _texts(value, name)]

    return ValueKind(str, spell, is_list=True)


def _one_of(words: tuple[str, ...], value: Any, name: str) -> str:
    if _text(value, name) not in words:
        raise InvalidInput(f"{name} cannot be {value!r}.", f"Choose from: {', '.join(words)}.")
    return str(value)


def _capability(value: Any, name: str) -> str:
    return str(value) if isinstance(value, float) else _text(value, name)


def _pairs(value: Any, name: str) -> list[str]:
    """A table, or a list as on the command line."""
    if not isinstance(value, Mapping):
        return _texts(value, name)
    for key, item in value.items():
        if "=" in str(key):  # joined, the value would begin there
            raise InvalidInput(
                f"{name}: {key!r} is not the name of a variable.", 'Write it like {"SEED": "42"}.'
            )
        if not isinstance(item, str) and not _is_number(item):
            raise InvalidInput(f"{name}: {key} must be a string or a number.", "Put it in quotes.")
    return [f"{key}={item}" for key, item in value.items()]


def parse_environment(pairs: list[str], name: str = "--env") -> dict[str, str]:
    """Parses NAME=value pairs; the last value of a name wins."""
    environment = {}
    for pair in pairs:
        variable, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            raise InvalidInput(f"{name} {pair!r} is not NAME=value.", "Write it like SEED=42.")
        environment[variable] = value
    return environment


def parse_labels(words: list[str], name: str = "--label") -> tuple[str, ...]:
    """A label is like region=eu, or a word alone."""
    for word in words:
        if not word.strip() or word != word.strip():
            raise InvalidInput(f"{name} {word!r} is not a label.", "Write it like region=eu.")
    return tuple(dict.fromkeys(words))


def _parse_wallets(words: list[str], name: str) -> tuple[str, ...]:
    for word in words:
        if not re.fullmatch(WALLET_PATTERN, word):
            raise InvalidInput(
                f"{name} is not a wallet address: 0x and 40 hexadecimal digits.",
                f"Check {word!r}; `potluck status` shows your own.",
            )
    return tuple(words)


def _parse_owners(words: list[str], name: str) -> tuple[str, ...]:
    _parse_wallets([word for word in words if word != ME], name)
    return tuple(words)


def _secrets(value: Any, name: str) -> Any:
    """Names; in Python also names with values."""
    if not isinstance(value, Mapping):
        return _texts(value, name)
    if not all(isinstance(secret, str) for secret in value.values()):
        raise InvalidInput("The value of a secret must be a string.", "Convert it: str(…).")
    return dict(value)


def _path(value: Any, name: str) -> str:
    return _text(os.fspath(value) if isinstance(value, os.PathLike) else value, name)


def _files(value: Any, name: str) -> list[str]:
    """SOURCE:NAME; in a table, the keys are the names for the task."""
    if isinstance(value, Mapping):
        return [f"{_path(source, name)}:{path}" for path, source in value.items()]
    is_single = isinstance(value, str | os.PathLike)
    return [_path(source, name) for source in ([value] if is_single else value)]


def _parse_files(words: list[str], _name: str) -> tuple[tuple[Path, str], ...]:
    """Each source with its name for the task; an existing file may have a colon in its name."""
    pairs = []
    for word in words:
        source, colon, path = word.rpartition(":")
        is_alone = not colon or Path(word).exists()
        pairs.append((Path(word), Path(word).name) if is_alone else (Path(source), path))
    return tuple(pairs)


def _parse_network(words: list[str], name: str) -> tuple[str, ...]:
    """Entries may also be separated by commas."""
    return parse_entries([entry for word in words for entry in word.split(",")], name)


def _parse_patterns(words: list[str], _name: str) -> tuple[str, ...]:
    """As paths are written: ./ckpt/ is ckpt."""
    return tuple(word.removeprefix("./").rstrip("/") for word in words)


def _volumes(value: Any, name: str) -> list[str]:
    """NAME:PATH; in a table, the keys are the paths."""
    if isinstance(value, Mapping):
        return [f"{_text(volume, name)}:{path}" for path, volume in value.items()]
    return _texts(value, name)


_VOLUME = re.compile(r"(?:(0x[0-9a-fA-F]{40})/)?([^/@:]+)(?:@([^/@:]+))?(?::(.+))?")


def _parse_volumes(words: list[str], name: str) -> tuple[VolumeMount, ...]:
    mounts = tuple(parse_volume(word, name) for word in words)
    check_mounts(mounts, ())
    return mounts


def parse_volume(word: str, name: str = "--volume") -> VolumeMount:
    """[WALLET/]NAME[@VERSION][:PATH]; a relative path is in the task's directory."""
    match = _VOLUME.fullmatch(word)
    if match is None:
        raise InvalidInput(
            f"{name} {shorten_name(word)!r} is not NAME[@VERSION]:PATH.",
            "Write it like imagenet:/data, or WALLET/imagenet:/data if it is shared with you.",
        )
    owner, volume, version, path = match.groups()
    if path is not None and re.search(":(ro|rw)$", path):
        raise InvalidInput(
            f"{name} {shorten_name(word)!r}: a volume is always read-only.", "Leave out :ro or :rw."
        )
    path = f"/volumes/{volume}" if path is None else path.rstrip("/")
    where = path if path.startswith("/") else f"/work/{path.removeprefix('./')}"
    values = {"name": volume, "path": where, "version": version, "owner": owner}
    try:
        return msgspec.convert(values, VolumeMount)
    except msgspec.ValidationError:
        raise InvalidInput(
            f"{name} {shorten_name(word)!r}: the name has 2 to 63 lower-case letters, digits, dots"
            " and dashes, a version at least 4 hexadecimal digits, and the path plain names.",
            "Write it like imagenet@3f9ac2d1:/data.",
        ) from None


FLAG = ValueKind(bool, _flag)
TEXT = ValueKind(str, _text)
TEXTS = ValueKind(str, _texts, lambda words, _name: tuple(words), is_list=True)
GPUS = ValueKind(str, _gpus, _parse_gpus, "GPUS")
PATTERNS = ValueKind(str, _texts, _parse_patterns, "GLOB", is_list=True)
NETWORK = ValueKind(str, _texts, _parse_network, "HOST", is_list=True)
SHARE = ValueKind(float, _share, metavar="SHARE", least=0, most=1)
SIZE = _measure(parse_bytes, "SIZE", show_bytes)
VRAM = _measure(parse_vram, "SIZE", show_bytes)
TIME = _measure(parse_seconds, "TIME", show_seconds, "s")
CREDITS = _measure(parse_credits, "CREDITS", lambda micro: show_amount(micro))
FRACTION = _measure(parse_milli, "SHARE", str)
CAPABILITY = ValueKind(str, _capability, metavar="X.Y")
LABELS = ValueKind(str, _texts, parse_labels, "LABEL", is_list=True)
WALLETS = ValueKind(str, _texts, _parse_wallets, "WALLET", is_list=True)
OWNERS = ValueKind(str, _texts, _parse_owners, "WALLET", is_list=True)
VARIABLES = ValueKind(str, _pairs, parse_environment, "NAME=VALUE", is_list=True)
SECRETS = ValueKind(str, _secrets, metavar="NAME", is_list=True)
DIRECTORY = ValueKind(Path, _path, lambda value, _name: Path(value), "DIR", is_path=True)
FILE = ValueKind(Path, _path, lambda value, _name: Path(value), "FILE", is_path=True)
FILES = ValueKind(str, _files, _parse_files, "SRC[:DST]", is_list=True, is_path=True)
VOLUMES = ValueKind(str, _volumes, _parse_volumes, "NAME[:PATH]", is_list=True)
OBJECT = ValueKind(object, _as_it_is)
