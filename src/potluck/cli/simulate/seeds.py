"""Parses the seeds of a simulation."""

import re

from potluck.model.error import InvalidInput


def parse_range(text: str) -> range | None:
    """A range such as 42-51; None for other text."""
    match = re.fullmatch(r"(\d{1,9})-(\d{1,9})", text)
    if match is None:
        return None
    if int(match[2]) < int(match[1]):
        raise invalid_seeds(text)
    return range(int(match[1]), int(match[2]) + 1)


def parse_number(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise invalid_seeds(text)
    return int(text)


def invalid_seeds(text: str) -> InvalidInput:
    return InvalidInput(f"{text!r} is not a range of seeds.", "Write it like --seeds 42-51.")
