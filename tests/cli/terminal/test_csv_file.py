"""CSV files: no cell becomes a formula, and what was written is read back."""

from pathlib import Path

import pytest

from potluck.cli.terminal.csv_file import csv_text, read_csv
from potluck.model.error import InvalidInput

DANGEROUS = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", '=HYPERLINK("http://x","y")']


@pytest.mark.parametrize("cell", DANGEROUS)
def test_a_formula_is_text_and_is_read_back(cell: str, tmp_path: Path) -> None:
    text = csv_text(["id", "note"], [[cell, 'a,b "c"']])
    written = text.split("\r\n", 1)[1]
    assert written.lstrip('"').startswith("'"), written
    path = tmp_path / "file.csv"
    path.write_bytes(text.encode())
    assert read_csv(path, ["note", "id"]) == [['a,b "c"', cell.strip()]]


def test_columns_may_be_in_any_order_and_optional_ones_may_lack(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes("\ufeffnote,id\nn,1\nm,2\n".encode())
    assert read_csv(path, ["id"], ["reference"]) == [["1", ""], ["2", ""]]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "has no column id"),
        (b"a,b\n1,2\n", "has no column id"),
        (b"id\n\xff\xfe\n", "cannot be read"),
        (b'id\n"open\n', "cannot be read"),
    ],
)
def test_unsuitable_files_are_refused(data: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match=sentence):
        read_csv(path, ["id"])
    with pytest.raises(InvalidInput):
        read_csv(tmp_path / "nothing.csv", ["id"])
