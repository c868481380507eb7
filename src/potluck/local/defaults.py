"""What `[tool.potluck]` may say: the options of a task, each with what it may be.

A script is often somebody else's, and so is a project. What a script says is of the script alone:
it names no files of this machine, nobody's server, and nobody who is told. What a project says may
name its own files, and where it runs. Secrets, and who may have them, are said on the command line,
every time.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.node import SandboxStrength
from potluck.model.task import MOST_ITEMS
from potluck.model.units import parse_bytes, parse_credits, parse_milli, parse_seconds


class Place(StrEnum):
    """Where a default stands."""

    SCRIPT = "script"
    PROJECT = "project"


class Key(Struct, frozen=True):
    """How a value is read, and whether a script may say it. What does not fit raises."""

    read: Callable[[Any, str], Any]
    in_script: bool = True


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{where} is to be a text.", "Write it in quotes.")
    return value


def _texts(value: Any, where: str) -> list[str]:
    """One, or a list of them."""
    every = value if isinstance(value, list) else [value]
    return [_text(each, where) for each in every]


def _yes_or_no(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{where} is to be true or false.", "Write it without quotes.")
    return value


def _whole(low: int, high: int) -> Callable[[Any, str], int]:
    def read(value: Any, where: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidInput(
                f"{where} is to be a whole number from {low} to {high:,}.",
                "Write it without quotes.",
            )
        return value

    return read


def _share(value: Any, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:
        raise InvalidInput(f"{where} is to be a number from 0 to 1.", "Such as 0.95.")
    return float(value)


def _measured(parse: Callable[[str, str], Any], unit: str = "") -> Callable[[Any, str], str]:
    """As on the command line; a bare number has the unit that it has there."""

    def read(value: Any, where: str) -> str:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        text = f"{value}{unit}" if is_number else _text(value, where)
        parse(text, where)
        return text

    return read


def _one_of(*words: str) -> Callable[[Any, str], str]:
    def read(value: Any, where: str) -> str:
        if _text(value, where) not in words:
            raise InvalidInput(f"{where} is not {value!r}.", f"Choose from: {', '.join(words)}.")
        return str(value)

    return read


def _some_of(*words: str) -> Callable[[Any, str], list[str]]:
    return lambda value, where: [_one_of(*words)(each, where) for each in _texts(value, where)]


def _variables(value: Any, where: str) -> list[str]:
    """A table, or a list as on the command line."""
    if not isinstance(value, dict):
        return _texts(value, where)
    for name, each in value.items():
        if not isinstance(each, str | int | float) or isinstance(each, bool):
            raise InvalidInput(f"{where}: {name} is to be a text or a number.", "Put quotes on it.")
    return [f"{name}={each}" for name, each in value.items()]


def _capability(value: Any, where: str) -> str:
    return str(value) if isinstance(value, float) else _text(value, where)


_SIZE, _TIME = _measured(parse_bytes), _measured(parse_seconds, "s")
# By the names of the options.
KEYS: Final[dict[str, Key]] = {
    "gpu": Key(_whole(0, 64)),
    "device-kind": Key(_one_of(*DeviceKind)),
    "memory": Key(_SIZE),
    "fraction": Key(_measured(parse_milli)),
    "share": Key(_yes_or_no),
    "vendor": Key(_text),
    "model": Key(_text),
    "capability": Key(_capability),
    "label": Key(_texts),
    "min-reliability": Key(_share),
    "sandbox": Key(_one_of(*SandboxStrength)),
    "max-price": Key(_measured(parse_credits)),
    "cores": Key(_whole(1, 4096)),
    "ram": Key(_SIZE),
    "disk": Key(_SIZE),
    "time": Key(_TIME),
    "stop-after-silence": Key(_TIME),
    "checkpoint": Key(_TIME),
    "delay": Key(_TIME),
    "deadline": Key(_TIME),
    "expected": Key(_TIME),
    "priority": Key(_whole(-100, 100)),
    "attempts": Key(_whole(1, 100)),
    "array": Key(_whole(1, MOST_ITEMS)),
    "allow-failures": Key(_whole(0, MOST_ITEMS)),
    "name": Key(_text),
    "env": Key(_variables),
    "owner": Key(_texts, in_script=False),
    "folder": Key(_text, in_script=False),
    "file": Key(_texts, in_script=False),
    "output": Key(_text, in_script=False),
    "notify": Key(_some_of("bell", "desktop", "none"), in_script=False),
    "server": Key(_text, in_script=False),
}
# What people look for, and what it is called here.
MEANT: Final = {
    "retries": "attempts",
    "gpus": "gpu",
    "price": "max-price",
    "timeout": "time",
    "vram": "memory",
    "mem": "ram",
    "cpu": "cores",
    "cpus": "cores",
    "labels": "label",
    "files": "file",
    "environment": "env",
}
ONLY_TYPED: Final = {"secret", "trust", "secrets-to-strangers"}
# Of a project: relative to it, and within it.
PATHS: Final = {"folder", "file", "output"}
