"""Prompts for passwords and confirmations."""

import getpass
import sys

import typer

from potluck.model.error import BadSettings, InvalidInput


def ask_hidden(question: str, instead: str = "Set POTLUCK_WALLET_PASSWORD") -> str:
    """Asks without echo. Without a terminal, the error says what to do `instead`."""
    if not sys.stdin.isatty():
        raise BadSettings(
            f"There is no terminal to ask for this: {question.rstrip(': ')}.",
            f"{instead}, or run the command in a terminal.",
        )
    try:
        return getpass.getpass(question)
    except EOFError:  # Ctrl-D
        raise typer.Abort from None


def ask_new_password() -> str:
    """Asks twice, until the password is valid and both entries match."""
    from potluck.consumer.identity.wallet import SHORTEST_PASSWORD, check_password

    while True:
        first = ask_hidden(
            f"Password for your new wallet ({SHORTEST_PASSWORD} characters or more): "
        )
        try:
            check_password(first)
        except InvalidInput as error:
            _tell(f"{error.detail} {error.hint}")
            continue
        if ask_hidden("The same again: ") == first:
            return first
        _tell("The passwords differ. Try again:")


def _tell(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def confirm(question: str, instead: str) -> bool:
    """Asks for a yes. `instead` is the option that confirms where there is no terminal."""
    if not sys.stdin.isatty():
        raise BadSettings(
            f"There is no terminal to ask this: {question}", f"Confirm in advance with {instead}."
        )
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
