"""A backup is made of the pool of `tests/server/flow/`."""

from tests.server.flow.conftest import any_database_url, pool, pytest_generate_tests

__all__ = ["any_database_url", "pool", "pytest_generate_tests"]
