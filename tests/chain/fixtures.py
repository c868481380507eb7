"""A chain for the tests that ask for one; skipped with a reason where there is no anvil."""

from collections.abc import Iterator

import pytest

from tests.chain.anvil import Anvil, find_anvil, running_anvil
from tests.conftest import need

CHAIN_ID = 31337


@pytest.fixture(scope="session")
def chain() -> Iterator[Anvil]:
    program = find_anvil()
    if program is None:
        need("anvil (npm, in tests/chain)")
        return
    with running_anvil(program, CHAIN_ID) as anvil:
        yield anvil
