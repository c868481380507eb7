"""`--secret NAME`: takes the value from the environment, or from a hidden prompt."""

import os
import re

from potluck.cli.terminal.prompt import ask_hidden
from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.model.bounded_types import LEAST_MASKED_CHARACTERS
from potluck.model.error import InvalidInput

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_secrets(words: list[str], pane: Pane) -> dict[str, str]:
    """Values by name; warns about values on the command line."""
    secrets = dict(_read(word, pane) for word in words)
    for name, value in secrets.items():
        if not value:
            raise InvalidInput(f"The secret {name} is empty.", "Set it, or omit it.")
        if len(value) < LEAST_MASKED_CHARACTERS:
            pane.prose(
                f"potluck: {name} has fewer than {LEAST_MASKED_CHARACTERS} characters, so it is not"
                " masked in the task's log.",
                Tone.WAITING,
            )
    return secrets


def stub_secrets(words: list[str]) -> dict[str, str]:
    """The names with a dummy value, for a dry run; asks and warns about nothing."""
    return {_name(word): "placeholder" for word in words}


def _name(word: str) -> str:
    name = word.partition("=")[0]
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"--secret {printable(name)!r} is not the name of a variable.",
            "Write it like --secret API_TOKEN; its value comes from your environment or a prompt.",
        )
    return name


def _read(word: str, pane: Pane) -> tuple[str, str]:
    name, (_, equals, value) = _name(word), word.partition("=")
    if equals:
        pane.prose(
            f"potluck: other users of this machine can see {name} in the process list, and your"
            f" shell may store it; next time export it and use --secret {name}.",
            Tone.WAITING,
        )
        return name, value
    exported = os.environ.get(name)
    return name, ask_hidden(f"{name}: ", f"Set {name}") if exported is None else exported
