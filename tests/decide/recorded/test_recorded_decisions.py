"""The scheduler decides as it always has: its decisions are those that were recorded, bit for bit.

The digests in `decisions.json` are those of the scheduler as it was before it was made faster,
except where a decision was meant to change.
"""

import json

import pytest

from tests.decide.recorded.cases import DIGESTS, long_cases, moderate_cases
from tests.public_data import shared_folder

RECORDED: dict[str, str] = json.loads(DIGESTS.read_text())
NEEDS_NO_TRACE = ("random", "more random", "bench")


@pytest.mark.parametrize("name", moderate_cases())
def test_decisions_match_the_recording(pytestconfig: pytest.Config, name: str) -> None:
    assert _digest(pytestconfig, name) == RECORDED[name]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", long_cases())
def test_decisions_match_the_recording_on_every_trace(
    pytestconfig: pytest.Config, name: str
) -> None:
    assert _digest(pytestconfig, name) == RECORDED[name]


def _digest(config: pytest.Config, name: str) -> str:
    case = (moderate_cases() | long_cases())[name]
    traces = DIGESTS.parent
    if not name.startswith(NEEDS_NO_TRACE):
        traces = shared_folder(config, "traces")
    return case(traces)


def test_every_recording_is_compared() -> None:
    assert RECORDED.keys() == (moderate_cases() | long_cases()).keys()
