"""Every setting of a machine and its devices: its key, its meaning, its spelling.

One table for the file `provider.toml`, for `potluck provider set` and for remote changes. `parse`
turns text from the file or a terminal into the value of that field of `TermsChange`; `spell` turns
a value back into what is written into the file.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from enum import Enum

import msgspec
from msgspec import Struct

from potluck.model.credit import MICRO
from potluck.model.decode_errors import plain_message, spell_bound, split_path
from potluck.model.error import InvalidInput
from potluck.model.hours import parse_hours
from potluck.model.network.patterns import parse_entries
from potluck.model.terms import SANDBOXES, TaskKind, TermsChange
from potluck.model.units import parse_bytes, parse_credits, parse_seconds

# The TOML types in use; a terminal gives text only.
Written = str | int | float | bool | list[str]
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_SIZES = (("GB", 10**9), ("GiB", 2**30), ("MB", 10**6), ("MiB", 2**20))


class OwnerSetting(Struct, frozen=True):
    name: str  # in the file and in commands
    field: str  # of TermsChange
    meaning: str
    example: str
    read: Callable[[Written, str], object]
    spell: Callable[[object], Written]
    is_for_node: bool = False  # cannot be set for single devices

    def parse(self, written: Written) -> object:
        """The value; InvalidInput names the error and what to write."""
        value = self.read(written, self.name)
        try:
            change = msgspec.convert({self.field: msgspec.to_builtins(value)}, TermsChange)
        except msgspec.ValidationError as error:
            why = spell_bound(plain_message(split_path(error)[0]), self.spell)
            raise InvalidInput(f"{self.name} {written!r}: {why}.", self.hint) from error
        return getattr(change, self.field)

    @property
    def hint(self) -> str:
        return f"Write it like {self.name}={self.example}."


def _node_flag(name: str, field: str, meaning: str, example: str) -> OwnerSetting:
    return OwnerSetting(name, field, meaning, example, _flag, _as_it_is, True)


def key_named(name: str) -> OwnerSetting:
    """The key of this name; InvalidInput lists all keys."""
    for key in KEYS:
        if key.name == name:
            return key
    names = ", ".join(key.name for key in KEYS)
    raise InvalidInput(f"There is no setting {name!r}.", f"There are: {names}.")


def _text(written: Written, name: str) -> str:
    if not isinstance(written, str):
        raise InvalidInput(f"{name} is not a string.", f'Put it in quotes: {name} = "{written}".')
    return written.strip()


def _sandbox(written: Written, name: str) -> str:
    text = _text(written, name)
    if text not in SANDBOXES:
        raise InvalidInput(f"There is no {name} {text!r}.", f"There are: {', '.join(SANDBOXES)}.")
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
    text = _number_text(written).strip().lower()
    if text not in (*_TRUE, *_FALSE):
        raise InvalidInput(f"{name} {written!r} is neither yes nor no.", "Write yes or no.")
    return text in _TRUE


def _words(written: Written, name: str) -> tuple[str, ...]:
    parts = written.split(",") if isinstance(written, str) else written
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise InvalidInput(f"{name} is not a list.", f'Write it like {name} = ["one", "two"].')
    return tuple(part.strip() for part in parts if part.strip())


def _network(written: Written, name: str) -> tuple[str, ...]:
    return parse_entries(_words(written, name), name)


def _kinds(written: Written, name: str) -> tuple[TaskKind, ...]:
    words = [word.lower() for word in _words(written, name)]
    if unknown := [word for word in words if word not in TaskKind.__members__.values()]:
        kinds = ", ".join(TaskKind)
        raise InvalidInput(f"{name}: there is no kind {unknown[0]!r}.", f"There are: {kinds}.")
    return tuple(map(TaskKind, words))


def _wallets(written: Written, name: str) -> tuple[str, ...]:
    from potluck.wire.signing.address import checksummed  # slow to import

    try:
        return tuple(map(checksummed, _words(written, name)))
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error.detail}", error.hint) from error


def _spell_credits(value: object) -> str:
    assert isinstance(value, int)
    return format((Decimal(value) / MICRO).normalize(), "f")


def _spell_bytes(value: object) -> str | int:
    """In the largest unit that is exact."""
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
        "Credits per hour for the whole device.",
        "0.25",
        _credits,
        _spell_credits,
    ),
    OwnerSetting(
        "paused", "is_paused", "Take no new work until set to no.", "yes", _flag, _as_it_is
    ),
    OwnerSetting(
        "hours",
        "hours",
        "When it takes work, in local time; empty: always.",
        '"mon-fri 18:00-08:00, sat, sun"',
        _hours,
        _as_it_is,
    ),
    OwnerSetting(
        "idle_minutes",
        "idle_minutes",
        "Take work only after you have not used it for this many minutes; 0: always.",
        "10",
        _number,
        _spell_number,
    ),
    OwnerSetting(
        "memory_share",
        "memory_share",
        "Share of the device's memory that tasks may use.",
        "0.8",
        _number,
        _spell_number,
    ),
    OwnerSetting(
        "power_watts",
        "power_watts",
        "Power limit, on devices that support one.",
        "220",
        _whole,
        _spell_number,
    ),
    OwnerSetting(
        "fractions",
        "fractions",
        "How many tasks may share the device at a time.",
        "4",
        _whole,
        _spell_number,
    ),
    OwnerSetting(
        "share_between_accounts",
        "shares_accounts",
        "Let tasks of several accounts share one device.",
        "no",
        _flag,
        _as_it_is,
    ),
    OwnerSetting(
        "reclaim",
        "is_reclaimable",
        "Stop tasks when you want the device back. Announced in advance, this does not count"
        " against you.",
        "yes",
        _flag,
        _as_it_is,
    ),
    OwnerSetting(
        "grace",
        "grace_seconds",
        "How long such a task has to finish.",
        "30s",
        _seconds,
        _spell_seconds,
    ),
    OwnerSetting(
        "kinds",
        "kinds",
        "Kinds of tasks to take; empty: all.",
        "script,function",
        _kinds,
        _spell_words,
    ),
    OwnerSetting(
        "allow",
        "allow",
        "Take tasks only from these wallets and your own; empty: from all.",
        "0x…",
        _wallets,
        _spell_words,
    ),
    OwnerSetting(
        "deny",
        "deny",
        "Take no tasks from these wallets; your own are always taken.",
        "0x…",
        _wallets,
        _spell_words,
    ),
    OwnerSetting(
        "network",
        "network",
        "Hosts that tasks of other accounts may reach: hosts, presets, open, raw or none.",
        "huggingface,pypi,*.example.org:8443",
        _network,
        _spell_words,
    ),
    OwnerSetting(
        "own_network",
        "own_network",
        "Hosts that your own tasks may reach; by default open.",
        "open",
        _network,
        _spell_words,
    ),
    OwnerSetting(
        "network_per_task",
        "network_task_bytes",
        "The most that one task may send and receive.",
        "20GB",
        _bytes,
        _spell_bytes,
    ),
    OwnerSetting(
        "cores",
        "cores",
        "Processor cores for all tasks together.",
        "8",
        _whole,
        _spell_number,
        True,
    ),
    OwnerSetting(
        "ram", "memory_bytes", "Memory for all tasks together.", "32GB", _bytes, _spell_bytes, True
    ),
    OwnerSetting(
        "disk",
        "disk_bytes",
        "Disk space for all tasks together; default: half of what is free.",
        "500GB",
        _bytes,
        _spell_bytes,
        True,
    ),
    OwnerSetting(
        "bandwidth",
        "bandwidth_bytes_per_second",
        "Bytes per second for dependencies, files and logs.",
        "50MB",
        _bytes,
        _spell_bytes,
        True,
    ),
    OwnerSetting(
        "sandbox",
        "sandbox",
        "The sandbox that tasks run in; none: take only your own tasks.",
        "bwrap",
        _sandbox,
        _as_it_is,
        True,
    ),
    _node_flag(
        "containers",
        "has_containers",
        "Run container images, if there is a container engine.",
        "no",
    ),
    OwnerSetting(
        "images",
        "images",
        "Patterns of images that other accounts may run; empty: none.",
        "python:*,ghcr.io/me/*",
        _words,
        _spell_words,
        True,
    ),
    _node_flag("pull_images", "pulls_images", "Pull images that are not on this machine.", "yes"),
    OwnerSetting(
        *("gpu_share", "gpu_share"),
        "How much of a GPU's share of cores, ram and disk its task gets if it requests nothing.",
        "0.8",
        _number,
        _spell_number,
        True,
    ),
    _node_flag(
        *("others_on_disk", "others_on_disk"),
        "Let tasks of other accounts use the disk where only a watchdog limits them; no: memory.",
        "yes",
    ),
    _node_flag(
        *("fetch_python", "fetches_pythons"),
        "Download another version of Python when a task requires it.",
        "yes",
    ),
    OwnerSetting(
        "network_per_month",
        "network_month_bytes",
        "The most that all tasks together may send and receive in a calendar month.",
        "500GB",
        _bytes,
        _spell_bytes,
        True,
    ),
)
