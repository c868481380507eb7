"""Patterns for device models, such as "RTX 40*|A100".

A pattern matches any part of a name, whatever the case; `*` stands for any text, `?` for one
character. Both inputs come from strangers, so a pattern is parsed once and compared once with each
name, however many tasks and devices have them, in time that is linear in the name.
"""

import re
from functools import lru_cache

# Models in one requirement.
MOST_MODELS = 8


@lru_cache(maxsize=16_384)
def matches_model(patterns: str, model: str) -> bool:
    """Whether one of the patterns matches the name of the model."""
    name = model.lower()
    return any(_contains(name, segments) for segments in parse_patterns(patterns))


@lru_cache(maxsize=4_096)
def parse_patterns(patterns: str) -> tuple[tuple[str | re.Pattern[str], ...], ...]:
    """For each pattern the texts that must follow each other in a name."""
    return tuple(
        tuple(_segment(text) for text in pattern.strip().split("*"))
        for pattern in patterns.lower().split("|")
    )


def _segment(text: str) -> str | re.Pattern[str]:
    if "?" not in text:
        return text
    return re.compile(".".join(map(re.escape, text.split("?"))), re.DOTALL)


def _contains(name: str, segments: tuple[str | re.Pattern[str], ...]) -> bool:
    """The first place of each segment leaves the most room for the next ones: no backtracking."""
    end = 0
    for segment in segments:
        if isinstance(segment, str):
            start = name.find(segment, end)
            if start < 0:
                return False
            end = start + len(segment)
        else:
            found = segment.search(name, end)
            if found is None:
                return False
            end = found.end()
    return True
