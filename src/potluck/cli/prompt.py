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
    """Typed twice."""
    from potluck.consumer.wallet import check_password

    first = hidden("Password for your new wallet: ")
    check_password(first)
    if hidden("The same again: ") != first:
        raise InvalidInput("The two passwords differ.", "Try again.")
    return first


def confirmed(question: str, instead: str) -> bool:
    """Whether the person says yes. `instead` is the option for where there is nobody to ask."""
    if not sys.stdin.isatty():
        raise BadSettings(
            f"There is no terminal to ask this: {question}", f"Say yes in advance with {instead}."
        )
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
