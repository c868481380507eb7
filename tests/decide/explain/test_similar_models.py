"""A model that was mistyped is answered with those that look like it."""

import pytest

from potluck.decide.explain.similar_models import describe_models, similar_models
from tests.decide.builders import gpu, node

MODELS = (
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA A10G",
    "NVIDIA GeForce RTX 4090",
    "NVIDIA H100 PCIe",
    "AMD Instinct MI300X",
)
NODES = [node(f"n{number}", gpu(model=model)) for number, model in enumerate(MODELS)]


@pytest.mark.parametrize("pattern", ["a100", "rtx 40*", "H?00", "nothing|mi300", "rtx4090"])
def test_a_model_on_offer_needs_no_suggestion(pattern: str) -> None:
    assert similar_models(pattern, NODES) is None


@pytest.mark.parametrize(
    ("pattern", "first"),
    [
        ("a10O", "NVIDIA A100-SXM4-80GB"),
        ("rtx4900", "NVIDIA GeForce RTX 4090"),
        ("geforce 4900", "NVIDIA GeForce RTX 4090"),
        ("h1000", "NVIDIA H100 PCIe"),
        ("v100|mi30O", "AMD Instinct MI300X"),
    ],
)
def test_the_closest_name_comes_first(pattern: str, first: str) -> None:
    names = similar_models(pattern, NODES)
    assert names is not None and names[0] == first and len(names) <= 3


@pytest.mark.parametrize("pattern", ["completely different", "*", "||"])
def test_unmatched_patterns_suggest_no_model(pattern: str) -> None:
    assert not similar_models(pattern, NODES)


def test_without_a_similar_model_those_on_offer_are_named() -> None:
    assert describe_models("completely different", NODES[:2]) == (
        "on offer: NVIDIA A100-SXM4-80GB, NVIDIA A10G"
    )
    assert describe_models("a10O", NODES[:1]) == "similar: NVIDIA A100-SXM4-80GB"
    assert describe_models("a100", NODES) is None
    assert describe_models("b200", []) is None
