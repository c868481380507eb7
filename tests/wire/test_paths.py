"""Paths of files are strangers' words: they lead nowhere else, and read as what they are."""

import re
import time
from collections.abc import Callable

import msgspec
import pytest

from potluck.model.blob import PATH_PATTERN, PathText, is_path
from potluck.model.error import InvalidInput
from potluck.wire import codec
from potluck.wire.files import AddedFile
from potluck.wire.volumes import VolumeFile, VolumeManifest, decode_manifest


@pytest.mark.parametrize(
    "path", ["data/train.csv", "a b/ü", "..a", ".hidden", "👩‍💻.txt", "❤️‍🔥", "می‌خواهم"]
)
def test_a_path(path: str) -> None:
    assert is_path(path)
    assert msgspec.convert(path, PathText) == path


@pytest.mark.parametrize(
    "path",
    [
        *("", ".", "..", "../x", "a/../b", "a/.", "/x", "a//b", "a/", "a\\b"),
        *("a\nb", "a\n", "\x1b[31m", "a\x7f", "a\x9b31mb", "nul\x85x"),
        *("gpj.\u202exe", "\u2067a", "a\u2028b", "a\u200b"),
        # Joiners and selectors where no script and no emoji has them.
        *(
            "a\u200db",
            "a\ufe0f",
            "é\u200cé",
            "🙂\u200d",
            "\u200d🙂",
            "🙂\u200d\u200d🙂",
            "🙂\ufe0f\ufe0f",
        ),
    ],
)
def test_invalid_paths_are_refused(path: str) -> None:
    assert not is_path(path)
    with pytest.raises(InvalidInput):
        codec.decode_packed(msgspec.msgpack.encode({"path": path}), AddedFile)


def test_a_name_that_is_no_text_is_no_path() -> None:
    assert not is_path("a\udcff")


DEVICES = [
    *("CON", "con", "PRN", "AUX", "NUL", "CONIN$", "conout$"),
    *(f"{port}{digit}" for port in ("COM", "lpt") for digit in "123456789¹²³"),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "shape", ["{}", "{}.txt", "{}.tar.gz", "{}.", "{} ", "{} .txt", "{}:stream", "a/{}", "{}/a"]
)
def test_a_device_of_windows_is_no_path(device: str, shape: str) -> None:
    assert not is_path(shape.format(device))


@pytest.mark.parametrize(
    "path",
    ["console", "auxiliary.py", "a.con", "com10", "COM", "nul_", "x nul", "epoch:3.pt", "lpt"],
)
def test_a_name_that_only_begins_like_a_device_is_a_path(path: str) -> None:
    assert is_path(path)


def test_a_manifest_costs_little_more_than_a_look_at_its_paths() -> None:
    """Its paths were sorted and taken apart: twice as long, in steps of half a second."""
    paths = sorted("a/" * 120 + f"{number:05}" for number in range(5_000))
    content = VolumeManifest((), tuple(VolumeFile(path, False, ()) for path in paths)).encode()
    look = min(_seconds(lambda: list(map(re.compile(PATH_PATTERN).search, paths))) for _ in "123")
    assert min(_seconds(lambda: decode_manifest(content)) for _ in "123") < 1.5 * look


def _seconds(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started
