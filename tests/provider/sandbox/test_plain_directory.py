"""A directory that somebody shaped against whoever has to look into it and to remove it."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.provider.sandbox import plain_directory
from potluck.provider.sandbox.plain_directory import DirectoryGauge, directory_bytes, remove_tree

MIB = 2**20


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    work_directory = tmp_path / "work"
    work_directory.mkdir()
    yield work_directory
    remove_tree(work_directory)


def dig(directory: Path, levels: int, name: str = "d") -> None:
    """Deeper than a path can say, and than anything that recurses can go."""
    descriptor = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=descriptor)
        inner = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor)
    os.write(file, bytes(MIB))
    os.close(file)
    os.close(descriptor)


def test_files_count_by_their_blocks_and_their_names(work: Path) -> None:
    (work / "large").write_bytes(bytes(MIB))
    (work / "sub").mkdir()
    for number in range(100):
        (work / "sub" / str(number)).touch()
    assert MIB + 100 * 1024 <= directory_bytes(work) < 2 * MIB


def test_targets_of_links_are_not_counted(work: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(bytes(MIB))
    (work / "link").symlink_to(tmp_path)
    assert directory_bytes(work) < MIB


def test_measuring_a_large_directory_blocks_nothing(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking_threads: list[threading.Thread] = []
    may_end = threading.Event()

    def look(_: Path) -> int:
        looking_threads.append(threading.current_thread())
        assert may_end.wait(10)
        return MIB

    monkeypatch.setattr(plain_directory, "directory_bytes", look)
    gauge = DirectoryGauge(work, 1000)  # much may be there before the first look
    assert [gauge.is_full() for _ in range(3)] == [False] * 3
    may_end.set()
    assert gauge._measuring is not None
    gauge._measuring.result(10)
    assert len(looking_threads) == 1, "one at a time"
    assert gauge.is_full()


@pytest.mark.parametrize(("levels", "name"), [(1_600, "d"), (30, "n" * 200)])
def test_deep_trees_count_as_too_large(work: Path, levels: int, name: str) -> None:
    dig(work, levels, name)
    assert directory_bytes(work) > 2**60


def test_unreadable_directories_count_as_too_large(work: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is shut for root")
    (work / "shut").mkdir(mode=0)
    assert directory_bytes(work) > 2**60


def test_trees_of_any_shape_are_removed_and_nothing_else(work: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("stays")
    (work / "link").symlink_to(tmp_path / "elsewhere")
    (work / "sub").mkdir()
    (work / "sub" / "link").symlink_to(tmp_path / "elsewhere")
    dig(work, 1_600)
    dig(work / "sub", 40, "n" * 250)
    os.mkfifo(work / "pipe")
    (work / "shut").mkdir()
    (work / "shut" / "file").touch()
    (work / "shut").chmod(0)
    remove_tree(work)
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
    assert (tmp_path / "elsewhere" / "file").read_text() == "stays"
