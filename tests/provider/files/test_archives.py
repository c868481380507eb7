"""Archives of strangers: what is not plain is refused, soon, in little memory, and writes nothing.

Nothing is written at all of what is refused, be it in the directory or elsewhere.
"""

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.case_counts import counting_cases
from tests.provider.files.archives import HOSTILE, ODD, Archive, write
from tests.provider.sandbox.conftest import REPOSITORY

MOST_SECONDS = 2.0
MOST_BYTES = 200 * 2**20
OUTSIDE = Path("/tmp/potluck-escaped")


class Unpacker:
    """One process for all archives, with its own account of time and memory."""

    def __init__(self, process: "subprocess.Popen[str]", directory: Path) -> None:
        self._process = process
        self._directory = directory

    def unpack(self, archive: Archive) -> dict[str, Any]:
        path = self._directory / "archive"
        try:
            with path.open("wb") as target:
                write(archive, target)
            reply = self._ask(path)
        finally:
            path.unlink(missing_ok=True)
        assert [path.name for path in self._directory.iterdir()] == ["inside"]
        assert list((self._directory / "inside").iterdir()) == [], "something lies beside it"
        assert not OUTSIDE.exists()
        return reply

    def _ask(self, path: Path) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "it died"
        reply: dict[str, Any] = json.loads(line)
        return reply


@pytest.fixture(scope="module")
def unpacker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unpacker]:
    directory = tmp_path_factory.mktemp("archives")
    (directory / "inside").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.provider.files.unpacking"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Unpacker(process, directory)
    finally:
        process.kill()
        process.communicate()


def test_hostile_archives_are_refused_soon_and_in_little_memory(
    unpacker: Unpacker, request: pytest.FixtureRequest
) -> None:
    seconds, peaks = {}, {}
    with counting_cases(request) as tally:
        for name, archive in HOSTILE.items():
            with tally("hostile archives refused, and nothing written", name):
                unpacked = unpacker.unpack(archive)
                seconds[name], peaks[name] = unpacked["seconds"], unpacked["peak_bytes"]
                assert unpacked["refused"], f"it was unpacked to {unpacked['found']}"
                assert unpacked["found"] == {}, "some of it was written"
                assert unpacked["seconds"] < MOST_SECONDS
                assert unpacked["peak_bytes"] < MOST_BYTES
        slowest, largest = max(seconds, key=seconds.__getitem__), max(peaks, key=peaks.__getitem__)
        tally.note(f"  the slowest of them in {seconds[slowest]:.2f} s ({slowest})")
        tally.note(f"  the largest in {peaks[largest] // 2**20} MiB ({largest})")


@pytest.mark.parametrize("name", ODD)
def test_only_plain_files_and_directories_of_odd_archives_are_unpacked(
    unpacker: Unpacker, name: str
) -> None:
    archive, expected = ODD[name]
    unpacked = unpacker.unpack(archive)
    assert unpacked["refused"] is None
    modes = {path: stat.S_IMODE(mode) for path, mode in unpacked["found"].items()}
    assert modes == expected
    assert all(stat.S_ISREG(mode) or stat.S_ISDIR(mode) for mode in unpacked["found"].values())
