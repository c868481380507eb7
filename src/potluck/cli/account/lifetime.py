"""Parses the lifetime of a key or an invite."""

from potluck.cli.terminal.screen import printable
from potluck.model.error import InvalidInput
from potluck.model.units import parse_seconds, show_seconds
from potluck.wire.identity import LONGEST_LIFETIME_SECONDS, SHORTEST_LIFETIME_SECONDS


def parse_lifetime(text: str) -> int:
    """In seconds; checks the server's bounds here, so the error can name the option."""
    seconds = int(parse_seconds(text, "--expires"))
    if SHORTEST_LIFETIME_SECONDS <= seconds <= LONGEST_LIFETIME_SECONDS:
        return seconds
    shortest, longest = map(show_seconds, (SHORTEST_LIFETIME_SECONDS, LONGEST_LIFETIME_SECONDS))
    raise InvalidInput(
        f"--expires {printable(text)} is out of range: at least {shortest}, at most {longest}.",
        "Write it like 12h or 30d.",
    )
