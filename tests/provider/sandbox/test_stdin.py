"""The stdin of a run: a file that it reads, and cannot change."""

from pathlib import Path

import pytest

from potluck.provider.sandbox.driver import PYTHON
from tests.provider.sandbox.conftest import Host

CONTENT = b"Bob\n\x00\xff" * 20_000
COUNTS = "import sys; data = sys.stdin.buffer.read(); print(len(data), data == {!r} * 20_000)"


@pytest.fixture
def given(any_host: Host) -> Path:
    path = any_host.state_directory / "given"
    path.write_bytes(CONTENT)
    path.chmod(0o644)
    return path


@pytest.mark.parametrize("environment", [{}, {"LD_LIBRARY_PATH": "/nowhere"}], ids=["plain", "own"])
def test_a_run_reads_the_whole_file_up_to_its_end(
    any_host: Host, given: Path, environment: dict[str, str]
) -> None:
    source = COUNTS.format(b"Bob\n\x00\xff")
    result = any_host.python(source, stdin=given, environment=environment)
    assert result.stdout == b"120000 True\n", result.stderr


def test_a_program_reads_it_by_the_name_of_the_device_too(any_host: Host, given: Path) -> None:
    result = any_host.run(command=("/bin/sh", "-c", "wc -c < /dev/stdin"), stdin=given)
    assert result.stdout.strip() == b"120000", result.stderr


def test_without_a_file_stdin_is_empty(any_host: Host) -> None:
    result = any_host.run(command=(PYTHON, "-c", "import sys; print(repr(sys.stdin.read()))"))
    assert result.stdout == b"''\n"


def test_a_run_cannot_write_to_its_stdin(any_host: Host, given: Path) -> None:
    if any_host.report.driver == "none":
        pytest.skip("nothing protects the files of a machine without a sandbox")
    source = (
        "import os\n"
        "for change in (lambda: os.open('/proc/self/fd/0', os.O_RDWR), lambda: os.fchmod(0, 0o666),"
        " lambda: os.write(0, b'x')):\n"
        "    try:\n        change(); print('changed')\n"
        "    except OSError: print('refused')\n"
    )
    result = any_host.python(source, stdin=given)
    assert result.stdout == b"refused\n" * 3, result.stderr
    assert given.read_bytes() == CONTENT
