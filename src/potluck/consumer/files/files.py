"""Files that go to tasks, and files that tasks have left."""

import errno
import io
import os
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from potluck.consumer.files.download import download
from potluck.consumer.files.folder import pack_files, pack_folder
from potluck.consumer.files.upload import (
    Progress,
    described,
    open_file,
    upload,
)
from potluck.consumer.http.api_call import ask
from potluck.consumer.http.thread_map import at_once
from potluck.consumer.http.transport import Transport
from potluck.model.blob import BlobRef, NamedFile
from potluck.model.error import BadSettings, InvalidInput, UntrustedResult
from potluck.wire import routes
from potluck.wire.files import TaskFiles

# Of a value that is read into memory, unless somebody asks for more.
MOST_VALUE_BYTES = 2**30


class Files:
    """Of one account at one server. Whatever is broken off goes on where it ended."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def upload(self, path: Path, on_progress: Progress | None = None) -> BlobRef:
        """The file as a blob that tasks of this account can name. It is pinned for a day."""
        with closing(open_file(path)) as source:
            blob = described(source)
            upload(self._transport, source, blob, on_progress)
        return blob

    def upload_bytes(self, data: bytes) -> BlobRef:
        """The same for bytes that are here already."""
        source = io.BytesIO(data)
        blob = described(source)
        upload(self._transport, source, blob)
        return blob

    def upload_folder(self, directory: Path, on_progress: Progress | None = None) -> BlobRef:
        """The folder as an archive, without what its .gitignore names."""
        with tempfile.TemporaryDirectory(prefix="potluck-") as scratch:
            archive = Path(scratch) / "folder.tar"
            pack_folder(directory, archive)
            return self.upload(archive, on_progress)

    def upload_packed(
        self, named: Mapping[str, Path], on_progress: Progress | None = None
    ) -> BlobRef:
        """Many files as one archive, each under the name that it is to have there."""
        with tempfile.TemporaryDirectory(prefix="potluck-") as scratch:
            archive = Path(scratch) / "files.tar"
            pack_files(named, archive)
            return self.upload(archive, on_progress)

    def download(self, blob: BlobRef, path: Path, on_progress: Progress | None = None) -> None:
        """The blob as a file; what takes its place is whole and has the right hash."""
        download(self._transport, blob, path, on_progress)

    def download_bytes(self, blob: BlobRef, most_bytes: int = MOST_VALUE_BYTES) -> bytes:
        """A value that a node gave; how large it is was the node's choice."""
        if blob.size_bytes > most_bytes:
            raise UntrustedResult(
                f"The result has {blob.size_bytes} bytes, and at most {most_bytes} are read.",
                "Say max_result=…, or let the function leave it as a file in its output directory.",
            )
        try:
            with tempfile.TemporaryDirectory(prefix="potluck-") as scratch:
                path = Path(scratch) / "blob"
                download(self._transport, blob, path)
                return path.read_bytes()
        except OSError as error:
            raise BadSettings(
                f"There is no room for the result: {error.strerror or error}.",
                "Make room where temporary files are, or name another place by TMPDIR.",
            ) from error

    def of_task(self, task_id: str, attempt: int | None = None) -> TaskFiles:
        """All files that an attempt has left; without a number, the newest that left any."""
        found = self._page(task_id, attempt, None)
        files, cursor = list(found.files), found.next_cursor
        while cursor is not None:
            page = self._page(task_id, found.attempt, cursor)
            files += page.files
            cursor = page.next_cursor
        return msgspec.structs.replace(found, files=files, next_cursor=None)

    def fetch(
        self,
        task_id: str,
        directory: Path,
        attempt: int | None = None,
        on_progress: Progress | None = None,
    ) -> TaskFiles:
        """Brings them below the directory; what is there already and whole is not brought again.

        A file that is there and has other bytes is somebody's own: it stays, and is told at the
        end, as are names without a place.
        """
        found = self.of_task(task_id, attempt)
        self.bring(found.files, directory, task_id, on_progress)
        return found

    def bring(
        self,
        files: Sequence[NamedFile],
        directory: Path,
        task_id: str,
        on_progress: Progress | None = None,
    ) -> list[Path]:
        """The same for these of its files; where each of them is now, in their order."""
        if files:
            _make(directory)
        wanted, left_out = _placed(files, directory)
        total = _Total(on_progress, sum(file.blob.size_bytes for file in files))

        def bring(placed: tuple[BlobRef, Path]) -> None:
            blob, target = placed
            progress = total.of_one()
            if not target.exists():
                download(self._transport, blob, target, progress)
                return
            if not _is_there(target, blob):
                left_out.append(_occupied(target, task_id))
            progress(blob.size_bytes, blob.size_bytes)

        at_once(bring, wanted)
        if left_out:
            raise _told(left_out, len(files))
        return [target for _, target in wanted]

    def _page(self, task_id: str, attempt: int | None, cursor: str | None) -> TaskFiles:
        query = {"attempt": attempt, "cursor": cursor}
        return ask(self._transport, routes.TASK_FILES, TaskFiles, {"task_id": task_id}, query=query)


class _Total:
    """What is told of one file, as it is told of all of them, in whichever order they come."""

    def __init__(self, told: Progress | None, size_bytes: int):
        self._told = told
        self._size_bytes = size_bytes
        self._done_bytes = 0
        self._lock = threading.Lock()

    def of_one(self) -> Progress:
        before = 0

        def tell(done: int, _: int) -> None:
            nonlocal before
            with self._lock:
                self._done_bytes += done - before
                before = done
                if self._told is not None:
                    self._told(self._done_bytes, self._size_bytes)

        return tell


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"{directory} can not be a directory: {error.strerror}.",
            "Name one that is there, or that can be made.",
        ) from error


def _placed(
    files: Iterable[NamedFile], directory: Path
) -> tuple[list[tuple[BlobRef, Path]], list[BadSettings]]:
    """Where each of them goes; which have no place is no matter to the others."""
    places: dict[Path, BlobRef] = {}
    misplaced = []
    for file in files:
        try:
            if above := places.keys() & set((directory / file.path).parents):
                raise _below_a_file(file.path, above.pop())
            target = place_in(directory, file.path)
            if places.setdefault(target, file.blob) != file.blob:
                raise BadSettings(
                    f"The task left two files {file.path!r}, which are not the same.",
                    "The first of them was brought; no sound node names two files alike.",
                )
        except BadSettings as error:
            misplaced.append(error)
    return [(blob, target) for target, blob in places.items()], misplaced


def place_in(directory: Path, path: str) -> Path:
    """Where a file of a task goes: its name is a stranger's word, and must not lead elsewhere.

    Links below the directory are not followed, since a name could have been chosen to meet one.
    """
    target = directory / path
    try:
        ways = _ways(target, directory)
        if ways is None:
            raise BadSettings(
                f"The task left a file {path!r}, which would lead out of {directory}.",
                "No sound node gives a file such a name: do not trust that one.",
            )
        if link := next((way for way in ways if way.is_symlink()), None):
            raise BadSettings(
                f"There is a link in the way of {path!r}: {link}. None is followed.",
                "Take the link away, or name an empty directory.",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        raise _no_room(path, directory, error.strerror) from error
    return target


def _below_a_file(path: str, above: Path) -> BadSettings:
    """Whichever directory is named: no file system has both."""
    return BadSettings(
        f"The task left {path!r} below {above.name!r}, which it left as a file too.",
        f"{above} was brought; no directory has room for both, whichever you name.",
    )


def _no_room(path: str, directory: Path, why: str | None) -> BadSettings:
    return BadSettings(
        f"There is no place for {path!r} in {directory}: {why}.",
        "Name an empty directory that you may write to.",
    )


def _ways(target: Path, directory: Path) -> list[Path] | None:
    """All that it leads through below the directory, itself at last; None if it leads elsewhere."""
    parts = target.relative_to(directory).parts if target.is_relative_to(directory) else ("..",)
    if ".." in parts:
        return None
    return [directory.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]


def _occupied(target: Path, task_id: str) -> BadSettings:
    return BadSettings(
        f"{target} is there already and is another file; it was left as it is.",
        f"Move it away or take another directory, and `potluck result {task_id} -o DIR` brings it.",
    )


def _told(left_out: list[BadSettings], count: int) -> BadSettings:
    """The others are there."""
    first, *others = left_out
    if not others:
        return first
    return BadSettings(
        f"{len(left_out)} of {count} files were not brought. {first.detail}", first.hint
    )


def _is_there(target: Path, blob: BlobRef) -> bool:
    if not target.is_file() or target.stat().st_size != blob.size_bytes:
        return False
    with closing(open_file(target)) as source:
        return described(source) == blob
