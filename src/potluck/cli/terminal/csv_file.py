"""CSV files that spreadsheets open as text: no cell becomes a formula."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from potluck.model.error import InvalidInput

# A cell that begins so is computed by spreadsheets.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_GUARD = "'"
_MOST_BYTES = 16 * 1024 * 1024


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([_guarded(str(cell)) for cell in row] for row in rows)
    return text.getvalue()


def read_csv(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> list[list[str]]:
    """The cells of these columns, in any order in the file; other columns are ignored."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidInput(f"{path} is too large.", "Split it into several files.")
        text = path.read_text("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True, restval="")
        rows, names = list(reader), reader.fieldnames or ()
    except OSError as error:
        problem = error.strerror or str(error)
        raise InvalidInput(f"{path} cannot be read: {problem}.", "Check its name.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path} cannot be read as CSV: {error}.", "Check the file.") from error
    missing = [column for column in columns if column not in names]
    if missing:
        raise InvalidInput(
            f"{path} has no column {', '.join(missing)}.",
            f"Its first line names the columns: {','.join([*columns, *optional])}.",
        )
    return [[_unguarded(row.get(column) or "") for column in (*columns, *optional)] for row in rows]


def _guarded(cell: str) -> str:
    return f"{_GUARD}{cell}" if cell.startswith(_FORMULA) else cell


def _unguarded(cell: str) -> str:
    is_guarded = cell.startswith(_GUARD) and cell[1:].startswith(_FORMULA)
    return (cell[1:] if is_guarded else cell).strip()
