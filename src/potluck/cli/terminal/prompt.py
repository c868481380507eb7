"""Questions that only a person can answer."""

import getpass
import sys

import typer

from potluck.model.error import BadSettings, InvalidInput


def hidden(question: str, instead: str = "Set POTLUCK_WALLET_PASSWORD") -> str:
    """What the person typed. Where there is nobody to ask, says what to do instead."""
    if not sys.stdin.isatty():
        raise BadSettings(
            f"There is no terminal to ask for this: {question.rstrip(': ')}.",
            f"{instead}, or do it in a terminal.",
        )
    try:
        return getpass.getpass(question)
    except EOFError:  # Ctrl-D: they do not want to say
        raise typer.Abort from None


def new_password() -> str:
    """Typed twice. What will not do is told, and asked for again."""
    from potluck.consumer.identity.wallet import SHORTEST_PASSWORD, check_password

    while True:
        first = hidden(f"Password for your new wallet ({SHORTEST_PASSWORD} characters or more): ")
        try:
            check_password(first)
        except InvalidInput as error:
            _tell(f"{error.detail} {error.hint}")
            continue
        if hidden("The same again: ") == first:
            return first
        _tell("The two passwords differ. Once more:")


def _tell(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def confirmed(question: str, instead: str) -> bool:
    """Whether the person says yes. `instead` is the option for where there is nobody to ask."""
    if not sys.stdin.isatty():
        raise BadSettings(
            f"There is no terminal to ask this: {question}", f"Say yes in advance with {instead}."
        )
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
