"""Device models on offer whose names resemble a requested one, for people who mistyped it."""

from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher

from potluck.decide.pool.model_patterns import matches_model
from potluck.decide.types import FreeNode

_MOST_COMPARED = 100  # of the distinct names; the most frequent ones
_MOST_NAMED = 3
# As get_close_matches: below it, names only look alike by chance.
_LEAST_RATIO = 0.6


def similar_models(pattern: str, nodes: Iterable[FreeNode]) -> list[str] | None:
    """The closest model names on offer, best first; None if a device matches the pattern."""
    models = Counter(device.model for node in nodes for device in node.devices if device.model)
    if any(matches_model(pattern, model) for model in models):
        return None
    names = [model for model, _ in models.most_common(_MOST_COMPARED)]
    rated = sorted((-_likeness(pattern, name), name) for name in names)
    return [name for likeness, name in rated if -likeness >= _LEAST_RATIO][:_MOST_NAMED]


def _likeness(pattern: str, name: str) -> float:
    """How well one of the alternatives fits some consecutive words of the name, from 0 to 1."""
    words = name.lower().split()
    return max(
        _ratio(wanted, " ".join(words[start : start + len(wanted.split())]))
        for wanted in (part.strip(" *?") for part in pattern.lower().split("|"))
        for start in range(len(words))
    )


def _ratio(wanted: str, words: str) -> float:
    """Of the beginning too: A100-SXM4-80GB resembles a10O."""
    return max(
        SequenceMatcher(None, wanted, words).ratio(),
        SequenceMatcher(None, wanted, words[: len(wanted)]).ratio(),
    )
