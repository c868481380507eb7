"""`--secret NAME`: from the environment, or asked for where nobody else can read it."""

import os
import re

from potluck.cli.terminal.prompt import hidden
from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.model.bounded_types import LEAST_MASKED_CHARACTERS
from potluck.model.error import InvalidInput

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_secrets(words: list[str], pane: Pane) -> dict[str, str]:
    """Each by its name; a value on the command line is taken, and spoken about."""
    secrets = dict(_read(word, pane) for word in words)
    for name, value in secrets.items():
        if not value:
            raise InvalidInput(f"The secret {name} is empty.", "Set it, or leave it out.")
        if len(value) < LEAST_MASKED_CHARACTERS:
            pane.prose(
                f"potluck: {name} has fewer than {LEAST_MASKED_CHARACTERS} characters, so it is not"
                " hidden where the task writes it into its log.",
                Tone.WAITING,
            )
    return secrets


def named_secrets(words: list[str]) -> dict[str, str]:
    """Their names alone, for a request that is not meant: nobody is asked, nothing is told."""
    return {_name(word): "not said" for word in words}


def _name(word: str) -> str:
    name = word.partition("=")[0]
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"--secret {printable(name)!r} is not the name of a variable.",
            "Write it like --secret API_TOKEN; its value is taken from your environment, or asked.",
        )
    return name


def _read(word: str, pane: Pane) -> tuple[str, str]:
    name, (_, is_said, value) = _name(word), word.partition("=")
    if is_said:
        pane.prose(
            f"potluck: other users of this machine can read {name} in its list of processes, and"
            f" your shell may keep it; next time export it and say --secret {name}.",
            Tone.WAITING,
        )
        return name, value
    known = os.environ.get(name)
    return name, hidden(f"{name}: ", f"Set {name}") if known is None else known
