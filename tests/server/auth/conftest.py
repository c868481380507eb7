"""A chain by the number of the main one."""

from tests.chain.fixtures import mainnet

__all__ = ["mainnet"]
