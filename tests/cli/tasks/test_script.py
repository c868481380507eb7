"""The script is read and checked before anybody else sees it."""

import os
from pathlib import Path

import pytest

from potluck.cli.request.task_kind import read_script
from potluck.model.bounded_types import SOURCE_CHARACTERS
from potluck.model.error import InvalidInput, PotluckError, TooLarge


def test_name_and_source(tmp_path: Path) -> None:
    script = tmp_path / "hello.py"
    script.write_bytes(b"\xef\xbb\xbfprint('\xc3\xa9')\n")
    assert read_script(str(script)) == ("hello.py", "print('é')\n")


@pytest.mark.parametrize(
    ("content", "error", "sentence"),
    [
        (b"", InvalidInput, "is empty"),
        (b" \n", InvalidInput, "is empty"),
        (b"\x7fELF\x02\x01\x00\xff", InvalidInput, "not valid UTF-8"),
        (b"print(1)\0", InvalidInput, "NUL"),
        (b"#" * (SOURCE_CHARACTERS + 1), TooLarge, "larger than the 512 KiB"),
        (b"# /// script\n# nonsense\n# ///\n", InvalidInput, "not valid TOML"),
        (b'# /// script\n# dependencies = ["./x"]\n# ///\n', InvalidInput, "plain requirement"),
    ],
)
def test_invalid_scripts_are_refused(
    tmp_path: Path, content: bytes, error: type[PotluckError], sentence: str
) -> None:
    script = tmp_path / "script.py"
    script.write_bytes(content)
    with pytest.raises(error, match=sentence) as raised:
        read_script(str(script))
    assert raised.value.hint


def test_the_largest_script_passes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_bytes(b"#" * SOURCE_CHARACTERS)
    assert len(read_script(str(script))[1]) == SOURCE_CHARACTERS


def test_a_path_that_is_not_a_script_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, sentence in [
        (tmp_path, "is a directory"),
        (tmp_path / "missing.py", "There is no file"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / ("x" * 300), "cannot be read"),
    ]:
        with pytest.raises(InvalidInput, match=sentence):
            read_script(str(path))
