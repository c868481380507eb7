"""What is put into a task's directory and taken from it stays within it, whatever is there."""

import asyncio
import os
import socket
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from potluck.model.blob import MOST_OUTPUT_FILES, PathText
from potluck.model.task import MIB, MOST_ITEMS, EndReason
from potluck.provider.files import outbox as outboxes
from potluck.provider.files import output_upload as collecting
from potluck.provider.files.archive import FileChanged, pack
from potluck.provider.files.in_thread import run_in_thread
from potluck.provider.files.outbox import Outbox
from potluck.provider.files.output_upload import OUTPUT_NAME, collect_outputs
from potluck.provider.files.unpack import make_directory, put_file, unpack
from potluck.provider.files.walk import is_empty
from potluck.provider.sandbox.driver import InputFailed, WorkDirectory
from tests.provider.builders import a_lease


@pytest.fixture
def work(tmp_path: Path) -> Iterator[WorkDirectory]:
    (tmp_path / "work").mkdir()
    descriptor = os.open(tmp_path / "work", os.O_RDONLY)
    yield WorkDirectory(descriptor)
    os.close(descriptor)


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    box = Outbox.open(tmp_path, a_lease()[0].attempt_id)
    yield box
    box.discard()


@contextmanager
def nobody() -> Iterator[None]:
    """As a user without rights, if we have any."""
    own_uid = os.geteuid()
    if own_uid == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(own_uid)


def archived(tmp_path: Path, *files: tuple[str, bytes, int]) -> Path:
    path = tmp_path / "archive.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, content, mode in files:
            source = tmp_path / "member"
            source.write_bytes(content)
            source.chmod(mode)
            archive.add(source, name)
    return path


def test_an_archive_is_unpacked_as_it_was(tmp_path: Path, work: WorkDirectory) -> None:
    long = "/".join(["a directory with a long name"] * 6) + "/ünïcode.txt"
    path = archived(
        tmp_path,
        ("run.sh", b"#!/bin/sh\n", 0o755),
        ("./sub/data", b"x" * 3000, 0o600),
        (long, b"", 0o644),
    )
    unpack(path, work, MIB)
    work_path = tmp_path / "work"
    assert (work_path / "sub/data").read_bytes() == b"x" * 3000
    assert (work_path / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (work_path / long).exists()
    assert abs((work_path / "run.sh").stat().st_mtime - (tmp_path / "member").stat().st_mtime) < 60


def test_a_packed_directory_unpacks_to_the_same_content(
    tmp_path: Path, work: WorkDirectory
) -> None:
    work_path = tmp_path / "work"
    (work_path / "checkpoint/deep/empty").mkdir(parents=True)
    (work_path / "checkpoint/state").write_bytes(b"s" * 1_000_000)
    (work_path / ("checkpoint/" + "n" * 200)).write_bytes(b"long")
    (work_path / "checkpoint/link").symlink_to("/etc/passwd")
    archive = tmp_path / "packed.tar"
    archive.write_bytes(b"".join(pack(work.descriptor, "checkpoint")))
    unpack(archive, work, 2 * MIB, "again")
    assert (work_path / "again/state").read_bytes() == b"s" * 1_000_000
    assert (work_path / ("again/" + "n" * 200)).read_bytes() == b"long"
    assert (work_path / "again/deep/empty").is_dir()
    assert not (work_path / "again/link").is_symlink()


def test_a_file_that_changes_while_it_is_packed_makes_that_worthless(
    tmp_path: Path, work: WorkDirectory
) -> None:
    (tmp_path / "work/checkpoint").mkdir()
    state = tmp_path / "work/checkpoint/state"
    state.write_bytes(bytes(3 * MIB))
    chunks = pack(work.descriptor, "checkpoint")
    next(chunks), next(chunks)
    state.write_bytes(b"shorter")
    with pytest.raises(FileChanged):
        list(chunks)


@pytest.mark.parametrize("subdirectory", ["", "checkpoint"])
def test_an_archive_that_does_not_fit_is_reported_before_unpacking(
    tmp_path: Path, work: WorkDirectory, subdirectory: str
) -> None:
    path = archived(tmp_path, ("small", b"x", 0o644), ("big", bytes(2 * MIB), 0o644))
    with pytest.raises(InputFailed, match=r"2\.0 MiB; the task has 1\.0 MiB of disk") as error_info:
        unpack(path, work, MIB, subdirectory)
    assert error_info.value.touched.reason is EndReason.DISK_LIMIT
    assert list((tmp_path / "work").iterdir()) == []


def test_no_link_is_followed_on_the_way_in(tmp_path: Path, work: WorkDirectory) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "work/sub").symlink_to(outside)
    (tmp_path / "work/file").symlink_to(outside / "file")
    path = archived(tmp_path, ("sub/evil", b"x", 0o644))
    with pytest.raises(InputFailed, match="two entries have the same path"):
        unpack(path, work, MIB)
    with pytest.raises(InputFailed, match="file cannot be a directory: two entries have"):
        make_directory(work, "file", MIB)
    for name in ("sub/evil", "file"):
        with pytest.raises(InputFailed, match="two entries have the same path"):
            put_file(work, name, b"x", MIB)
    assert list(outside.iterdir()) == []


def test_a_script_takes_the_place_of_its_copy_in_the_folder(
    tmp_path: Path, work: WorkDirectory
) -> None:
    unpack(archived(tmp_path, ("src/train.py", b"old and long", 0o644)), work, MIB)
    put_file(work, "src/train.py", b"new", MIB)
    assert (tmp_path / "work/src/train.py").read_bytes() == b"new"


def test_only_plain_files_are_collected(
    tmp_path: Path, work: WorkDirectory, outbox: Outbox
) -> None:
    assert is_empty(work.descriptor, OUTPUT_NAME), "not even a directory"
    output = tmp_path / "work/output"
    (output / "deep").mkdir(parents=True)
    assert not is_empty(work.descriptor, OUTPUT_NAME)
    (output / "deep/file").write_bytes(b"content")
    (output / "empty").touch()
    (output / "link").symlink_to("/etc/passwd")
    (output / "outside").symlink_to(tmp_path)
    os.mkfifo(output / "pipe")
    (output / "bad\nname").touch()
    Path(os.fsdecode(bytes(output) + b"/\xff")).touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(output / "socket"))
    with (output / "holes").open("wb") as file:
        file.truncate(10**12)
    messages = collect_outputs(work, outbox, MIB, "7/")
    assert [parcel.path for parcel in outbox.parcels] == ["7/deep/file", "7/empty"]
    assert outbox.read(outbox.parcels[0], 0, 100) == b"content"
    assert len(messages) == 2
    assert "bad\\nname" in messages[0]
    outbox.sync()
    assert messages[0].startswith(
        "output: left out, as they are not regular files or have unusable names: "
    )
    assert messages[0].endswith(" and 3 more")
    assert messages[1] == "output: left out, as they are larger than the disk: 'holes'"


def test_a_path_that_would_be_too_long_of_an_item_is_left_out(
    tmp_path: Path, work: WorkDirectory, outbox: Outbox
) -> None:
    """Else the server would refuse it, and what is sent with it."""
    deep = tmp_path / "work/output" / ("d" * 200) / ("d" * 200)
    deep.mkdir(parents=True)
    (deep / ("x" * 90)).touch()
    (deep / ("x" * 91)).touch()
    assert len(collect_outputs(work, outbox, MIB, f"{MOST_ITEMS - 1}/")) == 1
    (parcel,) = outbox.parcels
    assert msgspec.convert(parcel.path, PathText).endswith("x" * 90)


def test_a_name_that_is_not_text_is_left_out_and_reported(
    tmp_path: Path, work: WorkDirectory, outbox: Outbox
) -> None:
    (tmp_path / "work/output").mkdir()
    Path(os.fsdecode(bytes(tmp_path) + b"/work/output/\xff")).touch()
    (remark,) = collect_outputs(work, outbox, MIB)
    assert remark.encode().isascii()
    assert outbox.parcels == []


def test_unreadable_files_are_skipped(tmp_path: Path, work: WorkDirectory, outbox: Outbox) -> None:
    """Also from us, where we are not root."""
    for name in ("output", "checkpoint"):
        (tmp_path / "work" / name).mkdir()
    (tmp_path / "work/checkpoint/closed").touch(0o000)
    (tmp_path / "work/output").chmod(0o000)
    with nobody():
        assert collect_outputs(work, outbox, MIB) == [
            "output: left out, as they are not regular files or have unusable names: 'output'"
        ]
        assert b"".join(pack(work.descriptor, "checkpoint")) == bytes(1024)


def test_an_output_directory_that_is_a_link_is_nothing(
    tmp_path: Path, work: WorkDirectory, outbox: Outbox
) -> None:
    (tmp_path / "secret").write_text("of the host")
    (tmp_path / "work/output").symlink_to(tmp_path)
    assert is_empty(work.descriptor, OUTPUT_NAME)
    assert (collect_outputs(work, outbox, MIB), outbox.parcels) == ([], [])


def test_files_without_room_are_left_out_and_reported(
    tmp_path: Path, work: WorkDirectory, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work/output").mkdir()
    (tmp_path / "work/output/file").write_text("all of it")
    monkeypatch.setattr(outboxes, "_SPARE_BYTES", 2**62)
    assert collect_outputs(work, outbox, MIB) == [
        "output: left out, as this node's own disk is full: 'file'"
    ]
    assert outbox.parcels == []


def test_the_number_of_output_files_is_bounded(
    tmp_path: Path, work: WorkDirectory, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_OUTPUT_FILES >= 10_000
    monkeypatch.setattr(collecting, "MOST_OUTPUT_FILES", 3)
    (tmp_path / "work/output").mkdir()
    for number in range(5):
        (tmp_path / f"work/output/{number}").touch()
    assert collect_outputs(work, outbox, MIB) == ["output: only the first 3 files are kept"]
    assert len(outbox) == 3


async def test_a_thread_keeps_its_directory_however_the_run_ends(tmp_path: Path) -> None:
    """The number of a descriptor that is closed is soon another directory's."""
    (tmp_path / "work").mkdir()
    (tmp_path / "elsewhere").mkdir()
    started, go_on, finished = threading.Event(), threading.Event(), threading.Event()

    def act(work: WorkDirectory) -> None:
        started.set()
        go_on.wait(10)
        put_file(work, "late", b"x", MIB)
        finished.set()

    descriptor = os.open(tmp_path / "work", os.O_RDONLY)
    acting = asyncio.create_task(run_in_thread(WorkDirectory(descriptor), act))
    await asyncio.to_thread(started.wait, 10)
    acting.cancel()
    await asyncio.gather(acting, return_exceptions=True)
    os.close(descriptor)
    other = os.open(tmp_path / "elsewhere", os.O_RDONLY)
    assert other == descriptor
    go_on.set()
    assert await asyncio.to_thread(finished.wait, 10)
    os.close(other)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["late"]
