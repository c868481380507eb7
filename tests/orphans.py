"""Orphans of other tests are not ours to keep.

A provider adopts the orphans of its sandboxes, and a test that runs one in its own process would go
on adopting for all tests after it: what they wait to see gone would stay as a zombie.
"""

import ctypes
from collections.abc import Iterator

import pytest

_PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(autouse=True)
def orphans_are_let_go() -> Iterator[None]:
    yield
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
