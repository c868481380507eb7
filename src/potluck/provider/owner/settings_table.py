"""What an owner can say about a machine and its devices: every key, its meaning, its spelling.

One table for the file `provider.toml`, for `potluck provider set` and for what comes over the
network. `parse` takes what somebody wrote, in the file or in a terminal, and answers the value of
that name in `TermsChange`; `spell` is the way back, as it is written into the file.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from enum import Enum

import msgspec
from msgspec import Struct

from potluck.model.credit import MICRO
from potluck.model.decode_errors import plain
from potluck.model.error import InvalidInput
from potluck.model.hours import parse_hours
from potluck.model.terms import SANDBOXES, TaskKind, TermsChange
from potluck.model.units import parse_bytes, parse_credits, parse_seconds

# What TOML knows of what we use; a terminal knows text alone.
Written = str | int | float | bool | list[str]
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_SIZES = (("GB", 10**9), ("GiB", 2**30), ("MB", 10**6), ("MiB", 2**20))


class OwnerSetting(Struct, frozen=True):
    """One thing that can be said."""

    name: str  # in the file and in commands
    field: str  # of TermsChange
    meaning: str
    example: str
    read: Callable[[Written, str], object]
    spell: Callable[[object], Written]
    is_for_node: bool = False  # can not be said of single devices

    def parse(self, written: Written) -> object:
        """The value of that name; InvalidInput says what is wrong and what to write."""
        value = self.read(written, self.name)
        try:
            change = msgspec.convert({self.field: msgspec.to_builtins(value)}, TermsChange)
        except msgspec.ValidationError as error:
            why = plain(str(error)).split(" - at ")[0]
            raise InvalidInput(f"{self.name} {written!r}: {why}.", self.hint) from error
        return getattr(change, self.field)

    @property
    def hint(self) -> str:
        return f"Write it like {self.name}={self.example}."


def key_named(name: str) -> OwnerSetting:
    """The key of this name; InvalidInput lists those that there are."""
    for key in KEYS:
        if key.name == name:
            return key
    known = ", ".join(key.name for key in KEYS)
    raise InvalidInput(f"There is no {name!r} to set.", f"There are: {known}.")


def _text(written: Written, name: str) -> str:
    if not isinstance(written, str):
        raise InvalidInput(f"{name} is not text.", f'Put it in quotes: {name} = "{written}".')
    return written.strip()


def _sandbox(written: Written, name: str) -> str:
    text = _text(written, name)
    if text not in SANDBOXES:
        raise InvalidInput(f"{name} {text!r} is not known.", f"There are: {', '.join(SANDBOXES)}.")
    return text


def _hours(written: Written, name: str) -> str:
    text = _text(written, name)
    parse_hours(text, name)
    return text


def _credits(written: Written, name: str) -> int:
    return parse_credits(_number_text(written), name)


def _seconds(written: Written, name: str) -> float:
    text = _number_text(written)
    return 0.0 if text in ("0", "0s", "0.0") else parse_seconds(text, name)


def _bytes(written: Written, name: str) -> int:
    return parse_bytes(_number_text(written), name)


def _number_text(written: Written) -> str:
    return written if isinstance(written, str) else str(written)


def _number(written: Written, name: str) -> float:
    text = _number_text(written).strip()
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if not math.isfinite(number):
            raise ValueError(text)
        return number
    except ValueError as error:
        raise InvalidInput(
            f"{name} {text!r} is not a number.", "Write it like 10 or 0.5."
        ) from error


def _whole(written: Written, name: str) -> int:
    number = _number(written, name)
    if not number.is_integer():
        raise InvalidInput(f"{name} {written!r} is not a whole number.", "Write it like 8.")
    return int(number)


def _flag(written: Written, name: str) -> bool:
    said = _number_text(written).strip().lower()
    if said not in (*_TRUE, *_FALSE):
        raise InvalidInput(f"{name} {written!r} is neither yes nor no.", "Write yes or no.")
    return said in _TRUE


def _words(written: Written, name: str) -> tuple[str, ...]:
    parts = written.split(",") if isinstance(written, str) else written
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise InvalidInput(f"{name} is not a list.", f'Write it like {name} = ["one", "two"].')
    return tuple(part.strip() for part in parts if part.strip())


def _kinds(written: Written, name: str) -> tuple[TaskKind, ...]:
    words = [word.lower() for word in _words(written, name)]
    if unknown := [word for word in words if word not in TaskKind.__members__.values()]:
        known = ", ".join(TaskKind)
        raise InvalidInput(f"{name}: there is no kind {unknown[0]!r}.", f"There are: {known}.")
    return tuple(map(TaskKind, words))


def _wallets(written: Written, name: str) -> tuple[str, ...]:
    from potluck.wire.signing.address import checksummed  # only whoever names wallets needs it

    try:
        return tuple(map(checksummed, _words(written, name)))
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error.detail}", error.hint) from error


def _spell_credits(value: object) -> str:
    assert isinstance(value, int)
    return format((Decimal(value) / MICRO).normalize(), "f")


def _spell_bytes(value: object) -> str | int:
    """The largest unit that says it exactly."""
    assert isinstance(value, int)
    for unit, size in _SIZES:
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return value


def _spell_seconds(value: object) -> str:
    return f"{value:g}s"


def _spell_number(value: object) -> int | float:
    assert isinstance(value, int | float)
    return int(value) if float(value).is_integer() else value


def _as_it_is(value: object) -> Written:
    assert isinstance(value, str | bool | int)
    return value


def _spell_words(value: object) -> list[str]:
    assert isinstance(value, tuple)
    return [word.value if isinstance(word, Enum) else word for word in value]


KEYS: tuple[OwnerSetting, ...] = (
    OwnerSetting(
        "price",
        "price_micro_per_hour",
        "Credits for an hour of the whole device.",
        "0.25",
        _credits,
        _spell_credits,
    ),
    OwnerSetting(
        "paused", "is_paused", "Takes no new work until you say so.", "yes", _flag, _as_it_is
    ),
    OwnerSetting(
        "hours",
        "hours",
        "When it takes work, by your own clock; empty: always.",
        '"mon-fri 18:00-08:00, sat, sun"',
        _hours,
        _as_it_is,
    ),
    OwnerSetting(
        "idle_minutes",
        "idle_minutes",
        "Only after you have not used it for so long; 0: whether you use it or not.",
        "10",
        _number,
        _spell_number,
    ),
    OwnerSetting(
        "memory_share",
        "memory_share",
        "How much of the device's memory tasks may have.",
        "0.8",
        _number,
        _spell_number,
    ),
    OwnerSetting(
        "power_watts",
        "power_watts",
        "The most it may draw, where the device can be told.",
        "220",
        _whole,
        _spell_number,
    ),
    OwnerSetting(
        "fractions",
        "fractions",
        "How many tasks may have a part of the device at a time.",
        "4",
        _whole,
        _spell_number,
    ),
    OwnerSetting(
        "share_between_accounts",
        "shares_accounts",
        "Parts of one device may serve several accounts side by side.",
        "no",
        _flag,
        _as_it_is,
    ),
    OwnerSetting(
        "reclaim",
        "is_reclaimable",
        "Tasks may be stopped when you want the device back. Said in advance, it is held"
        " against nobody.",
        "yes",
        _flag,
        _as_it_is,
    ),
    OwnerSetting(
        "grace",
        "grace_seconds",
        "How long such a task has to come to an end.",
        "30s",
        _seconds,
        _spell_seconds,
    ),
    OwnerSetting(
        "kinds", "kinds", "Kinds of tasks; empty: all.", "script,function", _kinds, _spell_words
    ),
    OwnerSetting(
        "allow",
        "allow",
        "Only these wallets' tasks, and your own; empty: everybody's.",
        "0x…",
        _wallets,
        _spell_words,
    ),
    OwnerSetting(
        "deny",
        "deny",
        "None of these wallets' tasks, but always your own.",
        "0x…",
        _wallets,
        _spell_words,
    ),
    OwnerSetting(
        "cores",
        "cores",
        "Of the processor, for all tasks together.",
        "8",
        _whole,
        _spell_number,
        True,
    ),
    OwnerSetting(
        "ram",
        "memory_bytes",
        "Of the machine, for all tasks together.",
        "32GB",
        _bytes,
        _spell_bytes,
        True,
    ),
    OwnerSetting(
        "disk",
        "disk_bytes",
        "For all tasks together; it lies in memory too.",
        "10GB",
        _bytes,
        _spell_bytes,
        True,
    ),
    OwnerSetting(
        "bandwidth",
        "bandwidth_bytes_per_second",
        "A second, for dependencies and logs.",
        "50MB",
        _bytes,
        _spell_bytes,
        True,
    ),
    OwnerSetting(
        "sandbox",
        "sandbox",
        "Which sandbox tasks run in; none: only your own tasks are taken.",
        "bwrap",
        _sandbox,
        _as_it_is,
        True,
    ),
    OwnerSetting(
        "containers",
        "has_containers",
        "Container images are run, where there is an engine for them.",
        "no",
        _flag,
        _as_it_is,
        True,
    ),
    OwnerSetting(
        "images",
        "images",
        "Which images others may have run, as patterns; empty: none but your own tasks'.",
        "python:*,ghcr.io/me/*",
        _words,
        _spell_words,
        True,
    ),
    OwnerSetting(
        "pull_images",
        "pulls_images",
        "Images that are not on the machine are fetched.",
        "yes",
        _flag,
        _as_it_is,
        True,
    ),
)
