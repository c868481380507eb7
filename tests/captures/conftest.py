"""A server that plays the pool of the pictures."""

from collections.abc import Iterator

import pytest

from tests.consumer.fake_server import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as fake:
        yield fake
