"""Which seeds a simulation runs, as people say it."""

import re

from potluck.model.error import InvalidInput


def span(text: str) -> range | None:
    """The first and the last, as in 42-51; None if it is said otherwise."""
    found = re.fullmatch(r"(\d{1,9})-(\d{1,9})", text)
    if found is None:
        return None
    if int(found[2]) < int(found[1]):
        raise not_seeds(text)
    return range(int(found[1]), int(found[2]) + 1)


def number(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise not_seeds(text)
    return int(text)


def not_seeds(text: str) -> InvalidInput:
    return InvalidInput(f"{text!r} is no range of seeds.", "Say it like this: --seeds 42-51")
