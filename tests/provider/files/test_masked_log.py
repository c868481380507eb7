"""Secrets that a task writes by accident are not in its log."""

import time
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from potluck.provider.attempt.log_buffer import LogBuffer, LogSpool
from potluck.provider.attempt.log_limit import LimitedLog
from potluck.provider.attempt.mask import Mask, MaskedLog
from tests.provider.builders import a_lease

SECRETS = ("swordfish", "fishbone", "fishbone123", "tiny")


class Noted(LimitedLog):
    """Keeps what reaches the log, in memory."""

    def __init__(self) -> None:
        self.text: dict[str, bytes] = {}

    async def write(self, stream: str, data: bytes) -> None:
        self.text[stream] = self.text.get(stream, b"") + data

    async def begin_item(self, item: int) -> None: ...

    async def close(self) -> None:
        pass


async def test_secrets_are_masked_in_logs_except_for_short_ones(tmp_path: Path) -> None:
    lease, _ = a_lease()
    spool = LogSpool.open(tmp_path, lease.attempt_id)
    log = LogBuffer(spool, 60.0)
    masked = MaskedLog(LimitedLog(log, 10**6, 60.0), Mask(SECRETS))
    await masked.write("stdout", b"it is swordfish, and tiny")
    await masked.remark("the installer says swordfish too")
    await masked.close()
    log.flush()
    text = b"".join(piece.data for piece in spool.read(0, 10, 10**6))
    spool.close()
    assert text == b"it is ***, and tinythe installer says *** too\n"


async def test_text_that_only_begins_like_a_secret_is_kept() -> None:
    log = Noted()
    masked = MaskedLog(log, Mask(SECRETS))
    await masked.write("stdout", b"a sword")
    assert log.text == {"stdout": b"a "}
    await masked.write("stdout", b"s")
    await masked.write("stderr", b"swor")
    await masked.close()
    assert log.text == {"stdout": b"a swords", "stderr": b"swor"}


SAID = b"so: swordfish! and swordswordfish fishbone123 fishbone12, swordfishbone"


@given(st.lists(st.integers(0, len(SAID)), max_size=6))
async def test_however_it_is_cut_the_secrets_are_found(cuts: list[int]) -> None:
    log = Noted()
    masked = MaskedLog(log, Mask(SECRETS))
    for start, end in pairwise(sorted({0, len(SAID), *cuts})):
        await masked.write("stdout", SAID[start:end])
    await masked.close()
    assert log.text["stdout"] == b"so: ***! and sword*** *** ***12, ***bone"


def test_a_text_that_is_none_is_masked_too() -> None:
    assert Mask(SECRETS).text("\udcff swordfish") == "\udcff ***"


def test_a_long_secret_is_looked_for_quickly() -> None:
    """It is done in the event loop, for everything that is written."""
    secrets = ["k" * 6 + "0123456789abcdef" * 2_000 + str(number) for number in range(2)]
    started = time.process_time()
    mask = Mask(secrets)
    assert mask.text(f"<{secrets[1]}>") == "<***>"
    assert mask.settled(b"kilo " * 13_000 + b"k") == 65_000
    assert time.process_time() - started < 0.2


def test_secrets_that_repeat_themselves_are_looked_for_quickly() -> None:
    """As many as there may be, and a log that looks like their beginning at each place."""
    mask = Mask("a" * 1_000 + f"{number:02d}" for number in range(64))
    started = time.process_time()
    data = b"a" * 65_000
    assert mask.settled(data) == 64_000
    assert mask.data(data + b"07") == b"a" * 64_000 + b"***"
    assert time.process_time() - started < 0.5


@given(
    st.lists(st.text("ab", min_size=6, max_size=12), min_size=1, max_size=4),
    st.text("ab", max_size=40),
)
def test_a_possible_start_of_a_secret_is_held_back(secrets: list[str], said: str) -> None:
    prefixes = [secret[:size] for secret in secrets for size in range(len(secret))]
    longest = max(len(prefix) for prefix in prefixes if said.endswith(prefix))
    unsettled = len(said) - Mask(secrets).settled(said.encode())
    assert unsettled == longest or any(
        said.find(secret, len(said) - unsettled) == len(said) - unsettled for secret in secrets
    ), "it stands in the middle of one that is there"
    assert unsettled >= longest


async def test_the_last_lines_are_of_stderr_and_tell_no_secret() -> None:
    masked = MaskedLog(Noted(), Mask(SECRETS))
    await masked.write("stderr", b"".join(b"line %d\n" % number for number in range(20)))
    await masked.write("stdout", b"not this\n")
    await masked.write("stderr", b"  1 %\r 99 %\r100 %\r\n\nboom: swordfish, sword")
    lines = masked.last_lines("ValueError: it").splitlines()
    assert lines == [f"line {n}" for n in range(13, 20)] + [
        "100 %",
        "boom: ***, sword",
        "ValueError: it",
    ]
    await masked.write("stderr", b"x" * 100_000)
    assert len(masked.last_lines()) == 1_000
    await masked.begin_item(2)
    assert masked.last_lines() == ""
