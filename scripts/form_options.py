"""The fields of the dashboard's form for a task, from the table of options.

Writes web/src/logic/task_options.json.
"""

import json
import re
from enum import StrEnum
from typing import Any, Final

from potluck.local import option_values as kinds
from potluck.local.option_values import ValueKind
from potluck.local.task_options import OPTIONS, OptionSource, TaskOption

# Options that the form has in another place, or that a browser cannot offer.
ELSEWHERE: Final = {
    "image": "a kind of what to run",
    "dependencies": "in the block at the top of the script",
    "folder": "folders are chosen",
    "file": "files are chosen or dropped",
}
# How the form reads and writes a kind of value: see web/src/logic/option_values.ts.
_READERS: Final = (
    (kinds.CAPABILITY, "text"),
    (kinds.CREDITS, "credits"),
    (kinds.FLAG, "flag"),
    (kinds.FRACTION, "milli"),
    (kinds.GPUS, "gpus"),
    (kinds.LABELS, "words"),
    (kinds.NETWORK, "words"),
    (kinds.OWNERS, "owners"),
    (kinds.PATTERNS, "words"),
    (kinds.SECRETS, "variables"),
    (kinds.SHARE, "share"),
    (kinds.SIZE, "size"),
    (kinds.TEXT, "text"),
    (kinds.TEXTS, "words"),
    (kinds.TIME, "time"),
    (kinds.VARIABLES, "variables"),
    (kinds.VRAM, "size"),
    (kinds.VOLUMES, "volumes"),
    (kinds.WALLETS, "words"),
)


def is_on_form(option: TaskOption) -> bool:
    is_of_request = bool(option.field) and OptionSource.COMMAND in option.sources
    return is_of_request and option.name not in ELSEWHERE


def form_options() -> str:
    fields = [_field(option) for option in OPTIONS.values() if is_on_form(option)]
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def _field(option: TaskOption) -> dict[str, Any]:
    kind = option.kind
    default = "" if option.default is None else str(option.default)
    choices = list(kind.type) if issubclass(kind.type, StrEnum) else []
    field: dict[str, Any] = {
        "name": option.name,
        "title": option.title,
        "panel": "" if option.panel == "Options" else option.panel,
        "field": option.field,
        "reader": _reader(kind),
        "default": default,
        "metavar": _placeholder(option.metavar or kind.metavar or ""),
        "help": _help(option),
        "is_common": option.is_common,
    }
    if choices:
        field["choices"] = choices
    if kind.least is not None:
        field |= {"least": kind.least, "most": kind.most}
    return field


def _reader(kind: ValueKind) -> str:
    if issubclass(kind.type, StrEnum):
        return "choice"
    if kind.type is int:
        return "whole"
    return next(reader for known, reader in _READERS if known is kind)


def _placeholder(metavar: str) -> str:
    """A word alone is not shouted; a form such as NAME[:PATH] stays."""
    return metavar.lower() if metavar.isalpha() else metavar


def _help(option: TaskOption) -> str:
    """Without what concerns only those who type it; other options by their titles."""
    text = re.sub(r"; repeatable\b", "", option.help)
    return re.sub(r"--([a-z-]+)", lambda match: OPTIONS[match[1]].title, text)
