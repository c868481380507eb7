"""A folder becomes an archive: the same bytes each time, without what git would leave out."""

import os
import tarfile
from pathlib import Path

import pytest

from potluck.consumer.files.folder import pack_folder
from potluck.model.error import InvalidInput


def _write(top: Path, **files: str) -> Path:
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return top


def _names(archive: Path) -> list[str]:
    with tarfile.open(archive) as packed:
        return packed.getnames()


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    first_folder = _write(tmp_path / "one", **{"b.py": "1", "a/c.txt": "2", "a/é" + "x" * 150: "3"})
    other = _write(tmp_path / "other", **{"a/é" + "x" * 150: "3", "a/c.txt": "2", "b.py": "1"})
    os.utime(other / "b.py", (1, 1))
    (first_folder / "b.py").chmod(0o664)
    pack_folder(first_folder, tmp_path / "one.tar")
    pack_folder(other, tmp_path / "other.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "other.tar").read_bytes()
    assert _names(tmp_path / "one.tar") == ["a", "a/c.txt", "a/é" + "x" * 150, "b.py"]


def test_executable_files_stay_executable(tmp_path: Path) -> None:
    top = _write(tmp_path / "top", tool="#!/bin/sh", text="")
    (top / "tool").chmod(0o700)
    pack_folder(top, tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as packed:
        modes = {entry.name: entry.mode for entry in packed}
    assert modes == {"tool": 0o755, "text": 0o644}


def test_files_that_git_ignores_are_not_packed(tmp_path: Path) -> None:
    top = _write(
        tmp_path / "top",
        **{
            ".gitignore": "*.log\n/build/\n!kept.log\n",
            "a.log": "",
            "kept.log": "",
            "build/x": "",
            "src/build/y": "",
            "src/.gitignore": "!deep.log\ndata\n",  # the deeper one speaks last
            "src/deep.log": "",
            "src/data/big": "",
            ".git/config": "",
            "src/__pycache__/y.pyc": "",
        },
    )
    pack_folder(top, tmp_path / "a.tar")
    assert _names(tmp_path / "a.tar") == [
        ".gitignore",
        "kept.log",
        "src",
        "src/.gitignore",
        "src/build",
        "src/build/y",
        "src/deep.log",
    ]


def test_an_archive_in_the_folder_is_not_in_itself(tmp_path: Path) -> None:
    top = _write(tmp_path / "top", a="1")
    pack_folder(top, top / "folder.tar")
    assert _names(top / "folder.tar") == ["a"]


def test_a_link_to_a_file_of_the_folder_is_sent_as_that_file(tmp_path: Path) -> None:
    top = _write(tmp_path / "top", a="1")
    (top / "b").symlink_to("a")
    pack_folder(top, tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as packed:
        assert all(entry.isreg() and entry.size == 1 for entry in packed)


def test_all_unsendable_files_are_reported_together(tmp_path: Path) -> None:
    top = _write(tmp_path / "top", **{"src/a": "1", "new\nline": "", os.fsdecode(b"\xff"): ""})
    wrong = {
        "out": ("/etc/passwd", "is a link to outside"),
        "up": ("..", "is a link to outside"),
        "dirlink": ("src", "is a link to a directory"),
        "loop": (".", "is a link to a directory"),
        "gone": ("nowhere", "is a link to nothing"),
        "round": ("round", "is a link to nothing"),
    }
    for name, (target, _) in wrong.items():
        (top / name).symlink_to(target)
    os.mkfifo(top / "pipe")
    with pytest.raises(InvalidInput) as raised:
        pack_folder(top, tmp_path / "a.tar")
    detail = raised.value.detail
    assert all(f"top/{name}' {reason}" in detail for name, (_, reason) in wrong.items())
    assert "top/pipe' is neither a file nor a directory" in detail
    assert r"top/new\nline' has an invalid" in detail and r"top/\udcff' has an invalid" in detail
    assert detail.isprintable() and not (tmp_path / "a.tar").exists()


def test_a_path_that_is_no_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a directory"):
        pack_folder(tmp_path / "nowhere", tmp_path / "a.tar")
