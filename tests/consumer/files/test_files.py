"""Uploads and downloads against a server that breaks off, forgets and lies."""

import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.consumer import Potluck
from potluck.consumer.files.files import Obstructed, resolve_target
from potluck.model import error
from potluck.model.blob import BlobRef, NamedFile
from potluck.wire.codec import decode_json
from potluck.wire.files import BeginUpload, TaskFiles, Upload
from tests.consumer.fake_server import FakeServer, Scene, hang_up, refuses, says
from tests.consumer.test_client import HASTE

DATA = bytes(range(256)) * 10
BLOB = BlobRef(hashlib.sha256(DATA).hexdigest(), len(DATA))
PATH = f"/v1/blobs/{BLOB.sha256}"
GONE = error.NotFound("There is no such upload.")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as fake:
        yield fake


@pytest.fixture
def potluck(server: FakeServer) -> Iterator[Potluck]:
    with Potluck(server.url, "secret", HASTE) as client:
        yield client


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(DATA)
    return path


def _upload(parts_done: int, complete: bool = False) -> Scene:
    return says(Upload("u", 1000, parts_done, complete))


def _parts(server: FakeServer) -> list[tuple[str, bytes]]:
    sent = [request for request in server.requests if request.method == "PUT"]
    return [(request.path.rsplit("/", 1)[1], request.body) for request in sent]


def test_an_upload_is_sent_in_parts(server: FakeServer, potluck: Potluck, file: Path) -> None:
    server.plays("/v1/uploads", _upload(0))
    for number in range(3):
        server.plays(f"/v1/uploads/u/parts/{number}", _upload(number + 1))
    server.plays("/v1/uploads/u/finish", _upload(3), _upload(3, complete=True))
    progress_calls: list[tuple[int, int]] = []
    assert potluck.files.upload(file, lambda *progress: progress_calls.append(progress)) == BLOB
    first_request = server.requests[0]
    assert decode_json(first_request.body, BeginUpload).blob == BLOB
    assert _parts(server) == [("0", DATA[:1000]), ("1", DATA[1000:2000]), ("2", DATA[2000:])]
    assert progress_calls == [(0, 2560), (1000, 2560), (2000, 2560), (2560, 2560)]


def test_an_upload_resumes_after_the_stored_parts(
    server: FakeServer, potluck: Potluck, file: Path
) -> None:
    server.plays("/v1/uploads", _upload(2))
    server.plays("/v1/uploads/u/parts/2", hang_up(), _upload(3))  # sent again after a cut
    server.plays("/v1/uploads/u/finish", _upload(3, complete=True))
    assert potluck.files.upload(file) == BLOB
    assert [number for number, _ in _parts(server)] == ["2", "2"]


def test_stored_bytes_are_not_sent_again(server: FakeServer, potluck: Potluck, file: Path) -> None:
    server.plays("/v1/uploads", says(Upload("", 1000, 0, True)))
    assert potluck.files.upload(file) == BLOB
    assert len(server.requests) == 1


def test_an_upload_that_was_dropped_is_begun_again(
    server: FakeServer, potluck: Potluck, file: Path
) -> None:
    server.plays("/v1/uploads", _upload(2), says(Upload("w", 1000, 3, False)))
    server.plays("/v1/uploads/u/parts/2", refuses(GONE))
    server.plays("/v1/uploads/w/finish", _upload(3, complete=True))
    assert potluck.files.upload(file) == BLOB


def test_an_empty_file_can_be_uploaded(server: FakeServer, potluck: Potluck) -> None:
    server.plays("/v1/uploads", _upload(0))
    server.plays("/v1/uploads/u/finish", _upload(0, complete=True))
    assert potluck.files.upload_bytes(b"").size_bytes == 0


def test_a_missing_file_is_reported(potluck: Potluck, tmp_path: Path) -> None:
    with pytest.raises(error.InvalidInput, match="cannot be read: No such file"):
        potluck.files.upload(tmp_path / "nowhere")


def test_a_download_that_was_cut_goes_on(
    server: FakeServer, potluck: Potluck, tmp_path: Path
) -> None:
    cut = Scene(chunks=(DATA[:700], DATA[700:1500]), cut=True)
    server.plays(PATH, cut, Scene(206, DATA[1500:]))
    potluck.files.download(BLOB, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == DATA
    assert [request.headers.get("Range") for request in server.requests] == [None, "bytes=1500-"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_next_process_goes_on_too(server: FakeServer, potluck: Potluck, tmp_path: Path) -> None:
    server.plays(PATH, Scene(chunks=(DATA[:1500],), cut=True), refuses(GONE))
    with pytest.raises(error.NotFound):
        potluck.files.download(BLOB, tmp_path / "out")
    server.plays(PATH, Scene(206, DATA[1500:]))
    potluck.files.download(BLOB, tmp_path / "out")
    assert server.requests[-1].headers["Range"] == "bytes=1500-"
    assert (tmp_path / "out").read_bytes() == DATA


def test_a_server_without_ranges_is_fine(
    server: FakeServer, potluck: Potluck, tmp_path: Path
) -> None:
    server.plays(PATH, Scene(chunks=(DATA[:1500],), cut=True), Scene(200, DATA))
    potluck.files.download(BLOB, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == DATA


@pytest.mark.parametrize("lie", [DATA[:-1] + b"?", DATA + b"more"])
def test_a_file_is_never_replaced_by_other_bytes(
    server: FakeServer, potluck: Potluck, tmp_path: Path, lie: bytes
) -> None:
    (tmp_path / "out").write_text("before")
    server.plays(PATH, Scene(200, lie))
    with pytest.raises(error.Conflict, match="is not the blob"):
        potluck.files.download(BLOB, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "before"


def test_the_object_store_never_gets_the_token(
    server: FakeServer, potluck: Potluck, tmp_path: Path
) -> None:
    with FakeServer().running() as store:
        store.plays("/signed", Scene(200, DATA))
        server.plays(PATH, Scene(307, headers={"Location": f"{store.url}/signed?key=1"}))
        potluck.files.download(BLOB, tmp_path / "out")
        assert "Authorization" not in store.requests[0].headers
    assert (tmp_path / "out").read_bytes() == DATA


def test_files_of_a_task_come_below_the_directory_once(
    server: FakeServer, potluck: Potluck, tmp_path: Path
) -> None:
    pages = [
        TaskFiles(2, [NamedFile("a/b.bin", BLOB)], next_cursor="a/b.bin"),
        TaskFiles(2, [NamedFile("c.bin", BLOB)]),
    ]
    server.plays("/v1/tasks/t/files", *map(says, [*pages, *pages]))
    server.plays(PATH, Scene(200, DATA))
    progress_calls: list[int] = []
    fetched_files = potluck.files.fetch(
        "t", tmp_path, on_progress=lambda done_bytes, _: progress_calls.append(done_bytes)
    )
    assert [file.path for file in fetched_files.files] == ["a/b.bin", "c.bin"]
    assert (tmp_path / "a/b.bin").read_bytes() == (tmp_path / "c.bin").read_bytes() == DATA
    assert progress_calls[-1] == 2 * len(DATA) and progress_calls == sorted(progress_calls)
    download_count = sum(request.path == PATH for request in server.requests)
    potluck.files.fetch("t", tmp_path)
    assert sum(request.path == PATH for request in server.requests) == download_count == 2


@pytest.mark.parametrize("existing", [b"mine", DATA[:-1] + b"?", b""])
def test_a_file_of_ones_own_is_not_replaced(
    server: FakeServer, potluck: Potluck, tmp_path: Path, existing: bytes
) -> None:
    names = ["a.bin", "small.txt", "z.bin"]
    server.plays("/v1/tasks/t/files", says(TaskFiles(1, [NamedFile(name, BLOB) for name in names])))
    server.plays(PATH, Scene(200, DATA))
    (tmp_path / "small.txt").write_bytes(existing)
    progress_calls: list[int] = []
    for _ in range(2):  # a rerun finds everything
        potluck.files.fetch(
            "t", tmp_path, on_progress=lambda done_bytes, _: progress_calls.append(done_bytes)
        )
        assert contents(tmp_path) == {
            "a.bin": DATA,
            "potluck-t/small.txt": DATA,
            "small.txt": existing,
            "z.bin": DATA,
        }
    assert progress_calls[-1] == 3 * len(DATA)
    potluck.files.fetch("t", tmp_path, overwrite=True)
    assert (tmp_path / "small.txt").read_bytes() == DATA


def contents(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.mark.parametrize("overwrite", [True, False])
def test_links_and_directories_are_neither_followed_nor_replaced(
    server: FakeServer, potluck: Potluck, tmp_path: Path, overwrite: bool
) -> None:
    names = ["link", "linked/x", "dir"]
    files = TaskFiles(1, [NamedFile(name, BLOB) for name in names])
    server.plays("/v1/tasks/t/files", says(files), says(files))
    server.plays(PATH, Scene(200, DATA))
    top, outside = tmp_path / "top", tmp_path / "mine"
    outside.mkdir()
    (top / "dir").mkdir(parents=True)
    (top / "link").symlink_to(outside / "target")
    (top / "linked").symlink_to(outside)
    potluck.files.fetch("t", top, overwrite=overwrite)
    assert list(outside.iterdir()) == []
    assert contents(top) == {f"potluck-t/{name}": DATA for name in names}
    (top / "potluck-t").rename(top / "earlier")
    (top / "potluck-t").symlink_to(outside)
    with pytest.raises(error.BadSettings, match="contains a link"):
        potluck.files.fetch("t", top, overwrite=overwrite)
    assert list(outside.iterdir()) == []


def test_many_files_with_the_same_bytes_do_not_meet(
    server: FakeServer, potluck: Potluck, tmp_path: Path
) -> None:
    """They come several at a time, into one directory."""
    names = [f"{'long' * 20}-{number}" for number in range(60)]
    server.plays("/v1/tasks/t/files", says(TaskFiles(1, [NamedFile(name, BLOB) for name in names])))
    server.plays(PATH, Scene(200, DATA))
    potluck.files.fetch("t", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    assert all(path.read_bytes() == DATA for path in tmp_path.iterdir())


def test_a_path_that_is_no_directory_is_reported(
    server: FakeServer, potluck: Potluck, file: Path
) -> None:
    server.plays("/v1/tasks/t/files", says(TaskFiles(1, [NamedFile("x", BLOB)])))
    with pytest.raises(error.InvalidInput, match="cannot be used as a directory"):
        potluck.files.fetch("t", file)


def test_a_server_that_is_away_for_a_while_costs_no_transfer(
    server: FakeServer, potluck: Potluck, file: Path, tmp_path: Path
) -> None:
    outages = [hang_up()] * (2 * HASTE.tries)
    server.plays("/v1/uploads", _upload(2))
    server.plays("/v1/uploads/u/parts/2", *outages, _upload(3))
    server.plays("/v1/uploads/u/finish", _upload(3, complete=True))
    assert potluck.files.upload(file) == BLOB
    server.plays(PATH, *outages, Scene(200, DATA))
    potluck.files.download(BLOB, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == DATA
    server.plays(PATH, hang_up())
    with pytest.raises(error.ServerUnreachable):
        potluck.files.download(BLOB, tmp_path / "again")


@pytest.mark.parametrize(
    ("number", "hint"),
    [(errno.ENOSPC, "Free some space"), (errno.EROFS, "Choose a directory that you")],
)
def test_unwritable_directories_are_reported_with_a_hint(
    potluck: Potluck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(error.BadSettings, match=os.strerror(number)) as error_info:
        potluck.files.download(BLOB, tmp_path / "out")
    assert error_info.value.hint.startswith(hint)


def test_a_file_that_cannot_be_saved_does_not_prevent_the_others(
    server: FakeServer, potluck: Potluck, tmp_path: Path
) -> None:
    long = "é" * 127  # as long as names can be
    names = ["dir", "dir/inner", "both/x", "both", "x" * 300, long, "last"]
    server.plays("/v1/tasks/t/files", says(TaskFiles(1, [NamedFile(name, BLOB) for name in names])))
    server.plays(PATH, Scene(200, DATA))
    with pytest.raises(
        error.BadSettings,
        match=r"^2 of 7 files were not downloaded\. .* 'dir/inner' below 'dir', which",
    ) as error_info:
        potluck.files.fetch("t", tmp_path)
    assert "empty directory" not in error_info.value.hint, "it was one"
    paths = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert paths == {"dir", "both/x", "potluck-t/both", long, "last"}


def test_the_second_of_two_files_with_one_name_is_reported(
    server: FakeServer, potluck: Potluck, tmp_path: Path
) -> None:
    other = replace(BLOB, sha256="0" * 64)
    named_files = [NamedFile("x", BLOB), NamedFile("x", other), NamedFile("y", BLOB)]
    server.plays("/v1/tasks/t/files", says(TaskFiles(1, named_files)))
    server.plays(PATH, Scene(200, DATA))
    with pytest.raises(error.BadSettings, match="two different files named 'x'"):
        potluck.files.fetch("t", tmp_path)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes() == DATA


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../x", "would be outside"),
        ("/etc/x", "would be outside"),
        ("a/../../x", "would be outside"),
        ("NUL", "not a plain name on every system"),
        ("a/com1.txt", "not a plain name on every system"),
        ("a/aux:stream/x", "not a plain name on every system"),
        ("gpj.\u202exe", "not a plain name on every system"),
        ("link/x", "path of 'link/x' contains a link: .*/top/link"),
        ("out", "path of 'out' contains a link: .*/top/out"),
    ],
)
def test_a_strangers_name_does_not_lead_out(tmp_path: Path, name: str, reason: str) -> None:
    """Whose doing it is, is told: a link was here before, and is no word of the node's."""
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(tmp_path)
    (top / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises((error.BadSettings, Obstructed), match=reason) as error_info:
        resolve_target(top, name)
    assert isinstance(error_info.value, Obstructed) is ("link" in reason)


def test_a_hostile_name_in_an_answer_is_no_answer(
    server: FakeServer, potluck: Potluck, tmp_path: Path
) -> None:
    server.plays("/v1/tasks/t/files", says(TaskFiles(1, [NamedFile("../x", BLOB)])))
    with pytest.raises(error.BadSettings):
        potluck.files.fetch("t", tmp_path / "top")
    assert not (tmp_path / "x").exists()
