"""The files that a task has left: listed on first access, always verified."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from potluck.consumer.files.files import MOST_VALUE_BYTES, Files
from potluck.consumer.files.upload import Progress
from potluck.consumer.result.notebook_view import file_bundle, files_html
from potluck.local.media_size import PICTURES, TABLES, media_type
from potluck.model.blob import NamedFile
from potluck.model.error import NotFound
from potluck.wire.files import TaskFiles


class ResultFile:
    """One file; its content is fetched when it is read or downloaded."""

    def __init__(self, files: Files, task_id: str, named: NamedFile):
        self._files = files
        self._task_id = task_id
        self._named = named

    @property
    def path(self) -> str:
        """Its path in the task's output directory; untrusted."""
        return self._named.path

    @property
    def size_bytes(self) -> int:
        return self._named.blob.size_bytes

    @property
    def sha256(self) -> str:
        return self._named.blob.sha256

    @property
    def media_type(self) -> str:
        """A guess from its name, such as `image/png`."""
        return media_type(self.path)

    @property
    def is_picture(self) -> bool:
        return self.media_type in PICTURES

    @property
    def is_table(self) -> bool:
        return self.media_type in TABLES

    def read_bytes(self, most_bytes: int = MOST_VALUE_BYTES) -> bytes:
        """The content, with its hash verified; raises if it is larger than `most_bytes`."""
        return self._files.download_bytes(self._named.blob, most_bytes)

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    def download(
        self,
        directory: str | Path = ".",
        on_progress: Progress | None = None,
        *,
        overwrite: bool = False,
    ) -> Path:
        """Downloads it into the directory, under its own path, and returns where it is.

        A present copy is not downloaded again, and an interrupted download resumes. A present file
        with other content is replaced if `overwrite` is set; otherwise this one is saved in
        `potluck-…` in the directory, named by the task.
        """
        (place,) = self._files.bring(
            [self._named], Path(directory), self._task_id, on_progress, overwrite=overwrite
        )
        return place

    def __repr__(self) -> str:
        return f"<ResultFile {self.path!r}, {self.size_bytes:,} bytes>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """In a notebook: a picture, a preview of a table, or its name."""
        return file_bundle(self)


class ResultFiles(Sequence[ResultFile]):
    """All files, by number or by path; the list is fetched on first access."""

    def __init__(self, files: Files, task_id: str):
        self._files = files
        self._task_id = task_id
        self._listing: TaskFiles | None = None
        self._all: list[ResultFile] = []

    @overload
    def __getitem__(self, which: int | str) -> ResultFile: ...

    @overload
    def __getitem__(self, which: slice) -> list[ResultFile]: ...

    def __getitem__(self, which: int | str | slice) -> "ResultFile | list[ResultFile]":
        files = self._listed()
        if not isinstance(which, str):
            return files[which]
        for file in files:
            if file.path == which:
                return file
        raise NotFound(
            f"The task left no file {which!r}.",
            "It left " + (", ".join(repr(file.path) for file in files[:10]) or "none") + ".",
        )

    def __len__(self) -> int:
        return len(self._listed())

    def __iter__(self) -> Iterator[ResultFile]:
        return iter(self._listed())

    @property
    def attempt(self) -> int | None:
        """The number of the attempt that left them; None if there is none, or several."""
        return self._fetched().attempt

    @property
    def cleared(self) -> bool:
        """Whether there may have been files that are no longer kept."""
        return self._fetched().cleared

    @property
    def pictures(self) -> list[ResultFile]:
        return [file for file in self if file.is_picture]

    @property
    def tables(self) -> list[ResultFile]:
        return [file for file in self if file.is_table]

    def download(
        self,
        directory: str | Path = ".",
        on_progress: Progress | None = None,
        *,
        overwrite: bool = False,
    ) -> list[Path]:
        """Downloads all files into the directory, several at a time, and returns their paths.

        Hashes are verified, present files are skipped, interrupted downloads resume. Present files
        with other content are replaced if `overwrite` is set; otherwise the new ones are saved in
        `potluck-…` in the directory, named by the task.
        """
        files = self._fetched().files
        return self._files.bring(
            files, Path(directory), self._task_id, on_progress, overwrite=overwrite
        )

    def __repr__(self) -> str:
        if self._listing is None:
            return f"<ResultFiles of {self._task_id}, not listed yet>"
        return f"<ResultFiles of {self._task_id}: {[file.path for file in self._all[:10]]}>"

    def _repr_html_(self) -> str:
        """In a notebook: a list, and the pictures."""
        return files_html(self)

    def _fetched(self) -> TaskFiles:
        if self._listing is None:
            listing = self._files.of_task(self._task_id)
            self._all = [ResultFile(self._files, self._task_id, file) for file in listing.files]
            self._listing = listing
        return self._listing

    def _listed(self) -> list[ResultFile]:
        self._fetched()
        return self._all
