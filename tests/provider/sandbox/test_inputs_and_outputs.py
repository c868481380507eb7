"""What is brought to a run before it begins, and taken from it when it has ended."""

import time

import pytest

from potluck.model.task import EndReason
from potluck.provider.sandbox.driver import PYTHON, Confinement
from tests.provider.sandbox.conftest import Host, confinement
from tests.provider.sandbox.host import SEEN, Answer, Request

DOUBLES = f"""
import os, time
text = open('given').read()
os.chmod('given', 0o700)
open('made', 'w').write(text * 2)
while not os.path.exists({SEEN!r}):
    time.sleep(0.01)
"""


def test_inputs_belong_to_the_task_and_outputs_are_found(any_host: Host) -> None:
    result = _run(any_host, DOUBLES, brings={"given": b"ab"})
    assert result.ended is not None
    assert result.ended.reason is EndReason.COMPLETED, result.stderr
    assert result.left == {"given": b"ab", "made": b"abab"}
    assert result.seen > 1, "it was also there while the code ran"


@pytest.mark.parametrize(
    ("end", "reason"),
    [("raise SystemExit(3)", EndReason.EXIT_STATUS), ("time.sleep(60)", EndReason.TIME_LIMIT)],
)
def test_outputs_of_a_failed_run_are_found(any_host: Host, end: str, reason: EndReason) -> None:
    source = f"import time; open('made', 'w').write('half'); {end}"
    result = _run(any_host, source, brings={}, seconds=1.0)
    assert result.ended is not None and result.ended.reason is reason
    assert result.left == {"made": b"half"}


def test_a_failing_input_ends_the_run_before_it_starts(any_host: Host) -> None:
    result = _run(any_host, "print('ran')", brings={"refused": b"it is no archive"})
    assert result.ended is not None
    assert (result.ended.reason, result.ended.detail) == (
        EndReason.INPUT_FAILED,
        "it is no archive",
    )
    assert (result.started, result.stdout, result.left) == (0, b"", {})


def test_a_recall_does_not_wait_for_large_inputs(any_host: Host) -> None:
    began = time.monotonic()
    result = any_host.ask(Request(_confined("print('ran')"), brings={}, hangs=True))
    assert result.ended is not None and result.ended.reason is EndReason.RECLAIMED
    assert result.started == 0
    assert time.monotonic() - began < 30


def _run(host: Host, source: str, brings: dict[str, bytes], seconds: float = 20.0) -> Answer:
    return host.ask(Request(_confined(source, seconds=seconds), brings=brings))


def _confined(source: str, **changes: object) -> Confinement:
    return confinement(command=(PYTHON, "-I", "-c", source), **changes)
