"""Chains for the tests that ask for one; skipped with a reason where there is no anvil."""

from collections.abc import Iterator

import pytest

from tests.chain.anvil import Anvil, find_anvil, running_anvil
from tests.conftest import need


@pytest.fixture(scope="session")
def chain() -> Iterator[Anvil]:
    yield from _running(31337)


@pytest.fixture
def mainnet() -> Iterator[Anvil]:
    """Empty, but by the number of the main chain."""
    yield from _running(1)


def _running(chain_id: int) -> Iterator[Anvil]:
    program = find_anvil()
    if program is None:
        need("anvil (npm, in tests/chain)")
        return
    with running_anvil(program, chain_id) as anvil:
        yield anvil
