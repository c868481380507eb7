"""Patterns for device models: what they match, and how little work hostile ones make."""

import pytest

from potluck.decide.pool.model_patterns import matches_model, parse_patterns
from potluck.model.bounded_types import MOST_DEVICES
from tests.decide.builders import gpu, task
from tests.decide.schedulers import NOW, node_with, scheduler

CARD = "NVIDIA GeForce RTX 4090"


@pytest.mark.parametrize(
    ("patterns", "model", "does_match"),
    [
        ("rtx 40*", CARD, True),
        ("RTX 40?0", CARD, True),
        ("RTX 3*|A100 | 4090", CARD, True),
        ("RTX*4090*GeForce", CARD, False),
        ("GeForce*GeForce", CARD, False),
        ("RTX 40??0", CARD, False),
        ("Radeon RX", "Navi 21 [Radeon RX 6800]", True),
        ("[Radeon RX 6800]", "Navi 21 [Radeon RX 6800]", True),
        ("[0-9]", CARD, False),
        ("ab*b", "ab", False),
    ],
)
def test_a_pattern_matches_a_part_of_the_name(patterns: str, model: str, does_match: bool) -> None:
    assert matches_model(patterns, model) is does_match


def test_each_pattern_is_parsed_once_and_compared_once_with_each_name() -> None:
    """A thousand tasks with patterns of their own, and a node with as many cards as are allowed."""
    parse_patterns.cache_clear()
    matches_model.cache_clear()
    pool = scheduler()
    models = 4
    cards = [gpu(f"g{number}", model=f"card {number % models}") for number in range(MOST_DEVICES)]
    pool.put_node(node_with("n1", 0, devices=tuple(cards)))
    patterns = [f"x{number % 10}*|y" for number in range(1_000)]
    for number, pattern in enumerate(patterns):
        requirements = {"device_model": pattern, "memory_bytes": 2**30 + number}
        pool.put_task(task(f"t{number:04}", **requirements))
    while not pool.plan(NOW, 200).is_complete:
        pass
    assert parse_patterns.cache_info().misses == len(set(patterns))
    assert matches_model.cache_info().misses == len(set(patterns)) * models
