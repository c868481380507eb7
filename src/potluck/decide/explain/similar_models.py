"""Device models on offer whose names resemble a requested one, for people who mistyped it."""

from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher

from potluck.decide.pool.model_patterns import matches_model
from potluck.decide.types import FreeNode
from potluck.model.device import DeviceKind

_MOST_COMPARED = 100  # of the distinct names; the most frequent ones
_MOST_NAMED = 3
_MOST_OFFERED = 8  # named if none is similar
# As get_close_matches: below it, names only look alike by chance.
_LEAST_RATIO = 0.6


def describe_models(pattern: str, nodes: Iterable[FreeNode]) -> str | None:
    """Which names were perhaps meant, or what else is on offer; None if a device matches."""
    nodes = list(nodes)
    names = similar_models(pattern, nodes)
    if names is None:
        return None
    if names:
        return f"similar: {', '.join(names)}"
    gpus = Counter(
        device.model for node in nodes for device in node.devices if device.kind is DeviceKind.GPU
    )
    offered = ", ".join(model for model, _ in gpus.most_common(_MOST_OFFERED))
    return f"on offer: {offered}{', …' * (len(gpus) > _MOST_OFFERED)}" if gpus else None


def similar_models(pattern: str, nodes: Iterable[FreeNode]) -> list[str] | None:
    """The closest model names on offer, best first; None if a device matches the pattern."""
    devices = [device for node in nodes for device in node.devices if device.model]
    if any(matches_model(pattern, device.model, device.memory_bytes) for device in devices):
        return None
    models = Counter(device.model for device in devices)
    names = [model for model, _ in models.most_common(_MOST_COMPARED)]
    rated = sorted((-_likeness(pattern, name), name) for name in names)
    return [name for likeness, name in rated if -likeness >= _LEAST_RATIO][:_MOST_NAMED]


def _likeness(pattern: str, name: str) -> float:
    """How well one of the alternatives fits some consecutive words of the name, from 0 to 1."""
    words = name.lower().split()
    return max(
        (
            _ratio(wanted, " ".join(words[start : start + len(wanted.split())]))
            for part in pattern.lower().split("|")
            if (wanted := part.strip(" *?"))
            for start in range(len(words))
        ),
        default=0.0,
    )


def _ratio(wanted: str, words: str) -> float:
    """Of the beginning too: A100-SXM4-80GB resembles a10O."""
    return max(
        SequenceMatcher(None, wanted, words).ratio(),
        SequenceMatcher(None, wanted, words[: len(wanted)]).ratio(),
    )
