"""Patterns for device models, such as "RTX 40*|A100 80GB", as people write them.

The words of a pattern may be anywhere in a name, in any order, with or without spaces and hyphens:
RTX4090, rtx-4090, 4090. `*` stands for any text, `?` for one character. A number is compared as a
whole, so "A10" is not an A100; without `*`, words end where a word or a number of the name does. A
size such as 80GB is compared with that in the name, or with the device's memory if the name has
none. Beside a number, makers' words such as GeForce need not be in the name.

Both inputs come from strangers, so a pattern is parsed once and compared once with each name,
however many tasks and devices have them, and the work grows with the product of their lengths.
"""

import re
from functools import lru_cache

from msgspec import Struct

# Models in one requirement.
MOST_MODELS = 8
_GIB = 2**30
_SIZE = re.compile(r"(?<![\w.*?])([0-9]{1,4})\s?g(?:i?b)?(?![\w.*?])")
_SIZE_IN_NAME = re.compile(r"(?<![0-9])([0-9]{1,4})\s?gi?b(?![a-z0-9])")
# A driver reports less than the nominal size: 15 GiB of 16, 22.5 of 24.
_SIZE_TOLERANCE = 0.1
_MAKERS = frozenset({"nvidia", "geforce", "tesla", "amd", "intel", "gpu"})
_WORD = re.compile(r"[\w*?]+")
_PART = re.compile(r"[a-z]+|[0-9]+|[^\W0-9a-z]+")
# Modules whose names do not say that they are: "NVIDIA H100 80GB HBM3".
_MODULE = re.compile(r"\b([hb])(?:20|100|200|300|800)\b(?!.*(?:pcie|nvl))")
_MODULE_WORDS = {"h": " sxm5", "b": " sxm6"}
_EDGE = "\0"  # in a name that was parsed, around each word and number; no name has it


class _Pattern(Struct, frozen=True):
    """One of the alternatives: words as segments that follow each other, and perhaps a size."""

    words: tuple[tuple[re.Pattern[str], ...], ...]
    size_gib: int | None


class _Name(Struct, frozen=True):
    text: str
    size_gib: int | None


@lru_cache(maxsize=16_384)
def matches_model(patterns: str, model: str, memory_bytes: int) -> bool:
    """Whether one of the patterns matches a device with this name and memory."""
    name = _parse_name(model)
    size_gib = memory_bytes / _GIB if name.size_gib is None else name.size_gib
    return any(
        _is_near(pattern.size_gib, size_gib)
        and all(_contains(name.text, segments) for segments in pattern.words)
        for pattern in parse_patterns(patterns)
    )


@lru_cache(maxsize=4_096)
def parse_patterns(patterns: str) -> tuple[_Pattern, ...]:
    """The alternatives, without those that name nothing."""
    parsed = map(_parse_pattern, patterns.lower().split("|"))
    return tuple(pattern for pattern in parsed if pattern.words or pattern.size_gib is not None)


def _parse_pattern(pattern: str) -> _Pattern:
    size = _SIZE.search(pattern)
    rest = pattern if size is None else f"{pattern[: size.start()]} {pattern[size.end() :]}"
    words = _WORD.findall(rest)
    if any(map(str.isdigit, rest)):
        words = [word for word in words if word not in _MAKERS]
    return _Pattern(tuple(map(_parse_word, words)), None if size is None else int(size[1]))


def _parse_word(word: str) -> tuple[re.Pattern[str], ...]:
    """What is between its stars; the first one begins at an edge, and the last one ends there."""
    first, *others = (
        f"{_EDGE}?".join(f"[^{_EDGE}]" if letter == "?" else re.escape(letter) for letter in text)
        for text in word.split("*")
    )
    segments = [_EDGE + first, *others]
    segments[-1] += _EDGE
    return tuple(map(re.compile, segments))


@lru_cache(maxsize=4_096)
def _parse_name(model: str) -> _Name:
    name = model.lower()
    if module := _MODULE.search(name):
        name += _MODULE_WORDS[module[1]]
    sizes = _SIZE_IN_NAME.findall(name)  # an instance of a card ends with its own
    text = _EDGE.join(["", *_PART.findall(name), ""])
    return _Name(text, int(sizes[-1]) if sizes else None)


def _is_near(wanted_gib: int | None, size_gib: float) -> bool:
    return wanted_gib is None or abs(wanted_gib - size_gib) <= _SIZE_TOLERANCE * wanted_gib


def _contains(name: str, segments: tuple[re.Pattern[str], ...]) -> bool:
    """The first place of each segment leaves the most room for the next ones: no backtracking."""
    end = 0
    for segment in segments:
        found = segment.search(name, end)
        if found is None:
            return False
        end = found.end()
    return True
