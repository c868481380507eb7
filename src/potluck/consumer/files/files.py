"""Input files of tasks, and the files that tasks have left."""

import errno
import io
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from msgspec.structs import replace

from potluck.consumer.files.download import download
from potluck.consumer.files.folder import pack_files, pack_folder
from potluck.consumer.files.upload import Progress, describe_blob, open_file, upload
from potluck.consumer.http.thread_map import map_in_threads
from potluck.consumer.http.transport import Transport, call_api
from potluck.model.blob import BlobRef, NamedFile, is_path
from potluck.model.error import BadSettings, InvalidInput, UntrustedResult
from potluck.wire import routes
from potluck.wire.files import TaskFiles

# Larger values are not read into memory, unless the caller raises the limit.
MOST_VALUE_BYTES = 2**30


class Files:
    """The files of one account. Interrupted transfers resume where they ended."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def upload(self, path: Path, on_progress: Progress | None = None) -> BlobRef:
        """Uploads a file as a blob that tasks of this account can use; it is pinned for a day."""
        with closing(open_file(path)) as source:
            blob = describe_blob(source)
            upload(self._transport, source, blob, on_progress)
        return blob

    def upload_bytes(self, data: bytes) -> BlobRef:
        """Uploads bytes from memory."""
        source = io.BytesIO(data)
        blob = describe_blob(source)
        upload(self._transport, source, blob)
        return blob

    def upload_folder(self, directory: Path, on_progress: Progress | None = None) -> BlobRef:
        """Uploads a folder as an archive, without the files that its .gitignore excludes."""
        with tempfile.TemporaryDirectory(prefix="potluck-") as scratch:
            archive = Path(scratch) / "folder.tar"
            pack_folder(directory, archive)
            return self.upload(archive, on_progress)

    def upload_packed(
        self, named: Mapping[str, Path], on_progress: Progress | None = None
    ) -> BlobRef:
        """Uploads files as one archive; the keys are their names in it."""
        with tempfile.TemporaryDirectory(prefix="potluck-") as scratch:
            archive = Path(scratch) / "files.tar"
            pack_files(named, archive)
            return self.upload(archive, on_progress)

    def download(self, blob: BlobRef, path: Path, on_progress: Progress | None = None) -> None:
        """Downloads a blob; the file appears only when it is complete and its hash is right."""
        download(self._transport, blob, path, on_progress)

    def download_bytes(self, blob: BlobRef, most_bytes: int = MOST_VALUE_BYTES) -> bytes:
        """Downloads a value into memory; its size was the node's choice, so it is limited."""
        if blob.size_bytes > most_bytes:
            raise UntrustedResult(
                f"The result has {blob.size_bytes} bytes; the limit is {most_bytes}.",
                "Raise max_result=…, or let the function write it to its output directory.",
            )
        try:
            with tempfile.TemporaryDirectory(prefix="potluck-") as scratch:
                path = Path(scratch) / "blob"
                download(self._transport, blob, path)
                return path.read_bytes()
        except OSError as error:
            raise BadSettings(
                f"There is no space for the result: {error.strerror or error}.",
                "Free some space for temporary files, or set TMPDIR to another directory.",
            ) from error

    def of_task(self, task_id: str, attempt: int | None = None) -> TaskFiles:
        """All files of an attempt; by default of the newest attempt that left any."""
        first = self._page(task_id, attempt, None)
        files, cursor = list(first.files), first.next_cursor
        while cursor is not None:
            page = self._page(task_id, first.attempt, cursor)
            files += page.files
            cursor = page.next_cursor
        return replace(first, files=files, next_cursor=None)

    def fetch(
        self,
        task_id: str,
        directory: Path,
        attempt: int | None = None,
        on_progress: Progress | None = None,
        *,
        overwrite: bool = False,
    ) -> TaskFiles:
        """Downloads the files of an attempt into the directory; see `bring`."""
        listing = self.of_task(task_id, attempt)
        self.bring(listing.files, directory, task_id, on_progress, overwrite=overwrite)
        return listing

    def bring(
        self,
        files: Sequence[NamedFile],
        directory: Path,
        task_id: str,
        on_progress: Progress | None = None,
        *,
        overwrite: bool = False,
    ) -> list[Path]:
        """Downloads these files; returns their paths, in the same order.

        A present file with the same content is skipped. One with other content is replaced if
        `overwrite` is set; otherwise the new file is saved in `potluck-…` in the directory, which
        is named by the task. After the downloads, an error reports names that cannot be used here.
        """
        if files:
            _make_directory(directory)
        unique, errors = _check_names(files, directory)
        total = _TotalProgress(on_progress, sum(file.blob.size_bytes for file in files))
        places: dict[str, Path] = {}

        def bring(file: NamedFile) -> None:
            blob, progress = file.blob, total.for_file()
            try:
                place, is_present = choose_place(
                    directory,
                    file.path,
                    task_id,
                    lambda present: _has_content(present, blob),
                    overwrite=overwrite,
                )
            except BadSettings as error:
                errors.append(error)
                return
            if is_present:
                progress(blob.size_bytes, blob.size_bytes)
            else:
                download(self._transport, blob, place, progress)
            places[file.path] = place

        map_in_threads(bring, unique)
        if errors:
            raise _combined(errors, len(files))
        return [places[file.path] for file in files]

    def _page(self, task_id: str, attempt: int | None, cursor: str | None) -> TaskFiles:
        query = {"attempt": attempt, "cursor": cursor}
        return call_api(
            self._transport, routes.TASK_FILES, TaskFiles, {"task_id": task_id}, query=query
        )


class _TotalProgress:
    """Adds up the progress of files that are transferred at the same time."""

    def __init__(self, on_progress: Progress | None, size_bytes: int):
        self._on_progress = on_progress
        self._size_bytes = size_bytes
        self._done_bytes = 0
        self._lock = threading.Lock()

    def for_file(self) -> Progress:
        before = 0

        def report(done: int, _: int) -> None:
            nonlocal before
            with self._lock:
                self._done_bytes += done - before
                before = done
                if self._on_progress is not None:
                    self._on_progress(self._done_bytes, self._size_bytes)

        return report


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"{directory} cannot be used as a directory: {error.strerror}.",
            "Choose one that exists or can be created.",
        ) from error


def _check_names(
    files: Iterable[NamedFile], directory: Path
) -> tuple[list[NamedFile], list[BadSettings]]:
    """The files that have a place of their own, and an error for each other one."""
    unique: dict[Path, NamedFile] = {}
    errors = []
    for file in files:
        try:
            if above := unique.keys() & set((directory / file.path).parents):
                raise _below_a_file(file.path, above.pop())
            with suppress(Obstructed):  # its directories come first
                resolve_target(directory, file.path)
            if unique.setdefault(directory / file.path, file).blob != file.blob:
                raise BadSettings(
                    f"The task left two different files named {file.path!r}.",
                    "Only the first was downloaded. A correct node does not report a name twice.",
                )
        except BadSettings as error:
            errors.append(error)
    return list(unique.values()), errors


class Obstructed(Exception):
    """Something is in the place of a file; `error` is for the user."""

    def __init__(self, detail: str, hint: str) -> None:
        super().__init__(detail)
        self.error = BadSettings(detail, hint)


def choose_place(
    directory: Path, path: str, task_id: str, is_same: Callable[[Path], bool], *, overwrite: bool
) -> tuple[Path, bool]:
    """The place of a task's file, and whether the file is there already.

    Without `overwrite` a file with other content keeps its place, and so does in any case what is
    not a file.
    """
    for name in (path, f"{aside_name(task_id)}/{path}"):
        try:
            place = resolve_target(directory, name)
        except Obstructed as error:
            obstructed = error
            continue
        if not place.exists():
            return place, False
        if is_same(place):
            return place, True
        if overwrite:
            return place, False
        obstructed = Obstructed(
            f"{place} exists already with other content; it was not replaced.",
            f"Move it away, or choose another directory: `potluck result {task_id} -o DIR`.",
        )
    raise obstructed.error


def aside_name(task_id: str) -> str:
    """The directory for files whose places are taken."""
    return f"potluck-{task_id[-8:]}"


def resolve_target(directory: Path, path: str) -> Path:
    """The target of a task's file. Its name is untrusted, and must not lead out of the directory.

    Links below the directory are not followed, since a name could have been chosen to use one:
    raises Obstructed, and BadSettings for a name that leads out.
    """
    target = directory / path
    try:
        steps = _path_steps(target, directory)
        if steps is None:
            raise BadSettings(
                f"The task left a file {path!r}, which would be outside of {directory}.",
                "A correct node does not report such a name: do not trust that node.",
            )
        if not all(map(is_path, path.split("/"))):
            raise BadSettings(
                f"The task left a file {path!r}, which is not a plain name on every system.",
                "A correct node does not report such a name: do not trust that node.",
            )
        if link := next((step for step in steps if step.is_symlink()), None):
            raise Obstructed(
                f"The path of {path!r} contains a link: {link}. Links are not followed.",
                "Remove the link, or choose an empty directory.",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        raise Obstructed(
            f"{path!r} cannot be created in {directory}: {error.strerror}.",
            "Choose an empty directory that you may write to.",
        ) from error
    return target


def _below_a_file(path: str, above: Path) -> BadSettings:
    return BadSettings(
        f"The task left {path!r} below {above.name!r}, which is also one of its files.",
        f"{above} was downloaded; no directory can contain both.",
    )


def _path_steps(target: Path, directory: Path) -> list[Path] | None:
    """Every path from below the directory to the target; None if the target is outside of it."""
    parts = target.relative_to(directory).parts if target.is_relative_to(directory) else ("..",)
    if ".." in parts:
        return None
    return [directory.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]


def _combined(errors: list[BadSettings], count: int) -> BadSettings:
    first, *others = errors
    if not others:
        return first
    return BadSettings(
        f"{len(errors)} of {count} files were not downloaded. {first.detail}", first.hint
    )


def _has_content(target: Path, blob: BlobRef) -> bool:
    if not target.is_file() or target.stat().st_size != blob.size_bytes:
        return False
    with closing(open_file(target)) as source:
        return describe_blob(source) == blob
