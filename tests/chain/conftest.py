"""The chain that the tests of one process share."""

from tests.chain.fixtures import chain

__all__ = ["chain"]
