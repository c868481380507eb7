"""What a node says of items is a stranger's word: it hides nothing, and takes nobody's place."""

from pathlib import Path
from unittest import mock

import pytest

from potluck.cli.results.collect_items import ItemCollector
from potluck.cli.results.fetch import OutputDirectory
from potluck.cli.terminal.screen import Screen
from potluck.consumer.item_log import split_by_item
from potluck.model.blob import BlobRef, NamedFile
from potluck.model.error import BadSettings
from potluck.model.ids import AttemptId
from potluck.model.task import ItemRange
from potluck.wire.consumer import LogPage, LogPiece
from potluck.wire.files import TaskFiles
from tests.consumer.fake_server import a_task

ONE, OTHER = (BlobRef(digit * 64, 1) for digit in "ab")


@pytest.mark.parametrize("number", ["9" * 5000, "00", "٣"])
def test_an_unknown_item_number_loses_no_output(number: str) -> None:
    pieces = [
        LogPiece("system", b"item 1:\n"),
        LogPiece("system", f"item {number}:\n".encode()),
        LogPiece("stdout", b"hello"),
    ]
    page = LogPage(AttemptId("attempt_1"), 0, 3, pieces, complete=True)
    ((_, written),) = split_by_item([page], ItemRange(0, 4))
    assert written == [(1, pieces[2])]


def fetched(paths: dict[str, BlobRef], directory: Path) -> list[NamedFile]:
    """What is brought for two items of these files of the task."""
    potluck = mock.Mock()
    files = [NamedFile(path, blob) for path, blob in paths.items()]
    potluck.files.of_task.return_value = TaskFiles(None, files)
    downloaded: list[NamedFile] = []

    def bring(files: list[NamedFile], place: Path, *_: object, **__: object) -> list[Path]:
        downloaded.extend(files)
        return [place / file.path for file in files]

    potluck.files.bring = bring
    output = OutputDirectory(directory)
    try:
        ItemCollector(["a.csv", "b.csv"], (), output).fetch(potluck, a_task(), output, Screen())
    except BadSettings as error:
        error.add_note(f"{[file.path for file in downloaded]}")
        raise
    return downloaded


def test_only_a_plain_number_is_an_item(tmp_path: Path) -> None:
    huge = f"{'9' * 5000}/p.png"
    item_files = fetched(dict.fromkeys(["1/p.png", "00/p.png", "٠/p.png", huge], ONE), tmp_path)
    assert [file.path for file in item_files] == ["b.csv/p.png", "00/p.png", "٠/p.png", huge]


def test_two_files_with_one_name_are_reported(tmp_path: Path) -> None:
    with pytest.raises(
        BadSettings, match=r"Two files of the task have the name a\.csv/p\.png"
    ) as raised:
        fetched({"0/p.png": ONE, "a.csv/p.png": OTHER, "1/q.png": ONE}, tmp_path)
    assert raised.value.__notes__ == ["['a.csv/p.png', 'b.csv/q.png']"]
    assert len(fetched({"0/p.png": ONE, "a.csv/p.png": ONE}, tmp_path)) == 1, "it is the same"
