"""Files that a task makes in its working directory: kept on request, and named if lost."""

import os
import socket
from pathlib import Path

import pytest

from potluck.provider.files.new_files import KeepPatterns, NewFiles
from potluck.provider.files.output_upload import collect_new_files
from potluck.provider.sandbox.driver import WorkDirectory
from tests.provider.builders import idle_freight


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("ckpt/**", ["ckpt/1.pt", "ckpt/a/b"], ["ckpts/1.pt", "a/ckpt/1"]),
        ("ckpt", ["ckpt/1.pt", "ckpt"], ["ckpt2"]),
        ("*.pt", ["a.pt"], ["a/b.pt", "a.ptx"]),
        ("**/*.pt", ["a.pt", "a/b.pt", "a/b/c.pt"], ["a/b.txt"]),
        ("**", ["a", "a/b"], [".cache/x", "a/.git/x", "a/__pycache__/x.pyc"]),
        (".cache/**", [".cache/x"], ["a/x"]),
        ("run-?/[ab].csv", ["run-1/a.csv"], ["run-10/a.csv", "run-1/c.csv"]),
        ("a/**/z", ["a/z", "a/b/c/z"], ["z", "a/b/zz"]),
    ],
)
def test_patterns_are_globs(pattern: str, matching: list[str], other: list[str]) -> None:
    patterns = KeepPatterns([pattern])
    assert [path for path in matching if not patterns.matches(path)] == []
    assert [path for path in other if patterns.matches(path)] == []


def test_a_pattern_that_could_match_in_many_ways_costs_little() -> None:
    patterns = KeepPatterns(["**/a*a*a*a*a*a*a*a*a*b/" * 6 + "x", "/".join(["**", "a"] * 30)])
    assert not patterns.matches("/".join(["a" * 100] * 60))


def run(directory: Path, patterns: list[str]) -> tuple[dict[str, bytes], list[str], str]:
    """The files that are kept, the remarks, and the sentence about the others."""
    work = directory / "work"
    (work / "output").mkdir(parents=True)
    (work / "sent").mkdir()
    for name in ("script.py", "sent/old.txt", "sent/changed.txt", "input.csv"):
        (work / name).write_text("before")
    descriptor = os.open(work, os.O_RDONLY)
    new = NewFiles(patterns, ("output", "checkpoint", "mounted.bin"))
    new.note(WorkDirectory(descriptor))
    for name in ("ckpt/1.pt", "ckpt/deep/2.pt", "sent/changed.txt", "output/seen.txt"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("after!")
    for name in ("mounted.bin", ".cache/x", "sent/__pycache__/x.pyc"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("no news")
    (work / "ckpt/link").symlink_to("/etc/passwd")
    (work / "ckpt/away").symlink_to("/etc")
    (Path(os.fsdecode(os.fsencode(work) + b"/ckpt/\xff"))).write_text("no name")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(work / "ckpt/socket"))
    freight = idle_freight(directory)
    messages = collect_new_files(WorkDirectory(descriptor), freight.outbox, 10**6, "", new)
    os.close(descriptor)
    kept_files = {
        parcel.path: freight.outbox.read(parcel, 0, 99) for parcel in freight.outbox.parcels
    }
    freight.outbox.discard()
    return kept_files, messages, new.describe_lost()


def test_new_and_changed_files_that_match_are_kept(tmp_path: Path) -> None:
    kept_files, messages, lost_text = run(tmp_path, ["ckpt/**", "sent/*"])
    names = ["ckpt/1.pt", "ckpt/deep/2.pt", "sent/changed.txt"]
    assert (kept_files, messages, lost_text) == (dict.fromkeys(names, b"after!"), [], "")


def test_files_that_are_not_kept_are_named(tmp_path: Path) -> None:
    kept_files, _, lost_text = run(tmp_path, [])
    assert kept_files == {}
    assert lost_text == (
        "3 new files, 18 B, were not kept: 'ckpt/1.pt', 'ckpt/deep/2.pt', 'sent/changed.txt';"
        " write to $POTLUCK_OUTPUT or use --keep '**'"
    )


def test_the_suggested_pattern_fits_and_can_be_typed(tmp_path: Path) -> None:
    assert run(tmp_path / "a", ["sent/*"])[2].endswith("use --keep 'ckpt/**'")
    (tmp_path / "work").mkdir()
    descriptor = os.open(tmp_path / "work", os.O_RDONLY)
    new = NewFiles([], ())
    new.note(WorkDirectory(descriptor))
    (tmp_path / "work" / "$(it's)").write_text("x")
    assert list(new.kept(WorkDirectory(descriptor))) == []
    os.close(descriptor)
    assert new.describe_lost().endswith("use --keep '**'")
