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
        ("4090", CARD, True),
        ("RTX4090", CARD, True),
        ("rtx-4090", CARD, True),
        ("GeForce 4090", CARD, True),
        ("tesla 4090", CARD, True),
        ("NVIDIA", CARD, True),
        ("AMD", CARD, False),
        ("rtx 409", CARD, False),
        ("rtx 40", CARD, False),
        ("---", CARD, False),
        ("1080ti", "NVIDIA GeForce GTX 1080 Ti", True),
        ("GTX 1080 Ti", "NVIDIA GTX1080Ti", True),
        ("4080 Super", "NVIDIA GeForce RTX 4080 SUPER", True),
        ("a10", "NVIDIA A100-SXM4-40GB", False),
        ("a10", "NVIDIA A10G", True),
        ("l4", "NVIDIA L40S", False),
        ("mi300", "AMD Instinct MI300X", True),
        ("A6000", "NVIDIA RTX 6000 Ada Generation", False),
        ("rtx 6000 ada", "NVIDIA RTX 6000 Ada Generation", True),
        ("A100 SXM", "NVIDIA A100-SXM4-40GB", True),
        ("A100 SXM", "NVIDIA A100 80GB PCIe", False),
        ("A100 PCIe", "NVIDIA A100-PCIE-40GB", True),
        ("h100-sxm5", "NVIDIA H100 80GB HBM3", True),
        ("H100 SXM", "NVIDIA H100 PCIe", False),
        ("H100 SXM", "NVIDIA H100 NVL", False),
        ("H200 SXM", "NVIDIA H200", True),
        ("B200 SXM", "NVIDIA B200", True),
    ],
)
def test_a_pattern_matches_words_of_the_name(patterns: str, model: str, does_match: bool) -> None:
    assert matches_model(patterns, model, 0) is does_match


@pytest.mark.parametrize(
    ("patterns", "model", "memory_gib", "does_match"),
    [
        ("A100 80GB", "NVIDIA A100 80GB PCIe", 79.6, True),
        ("a100-80gb", "NVIDIA A100-SXM4-80GB", 79.6, True),
        ("80G A100", "NVIDIA A100-SXM4-80GB", 79.6, True),
        ("A100 40 GB", "NVIDIA A100-SXM4-80GB", 79.6, False),
        ("A100 40GB", "NVIDIA A100-SXM4-40GB", 20, True),  # half of it is offered
        ("RTX 4090 24GB", CARD, 23.9, True),
        ("RTX 4090 48GB", CARD, 23.9, False),
        ("H100 80GB", "NVIDIA H100 PCIe", 79.6, True),
        ("T4 16GB", "Tesla T4", 15, True),
        ("24GB", CARD, 23.9, True),
        ("a100 40gb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20, False),
        ("3g.20gb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20, True),
    ],
)
def test_a_size_is_that_of_the_name_or_of_the_device(
    patterns: str, model: str, memory_gib: float, does_match: bool
) -> None:
    assert matches_model(patterns, model, int(memory_gib * 2**30)) is does_match


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
