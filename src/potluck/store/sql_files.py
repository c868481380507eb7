"""Named SQL: `queries/tasks.sql` holds blocks that start with `-- name: cancel`.

The query is the documentation, so it is kept in a file that an editor and psql can read, and is
never built from strings.
"""

import re
from functools import cache
from pathlib import Path

_QUERIES = Path(__file__).parent / "queries"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class Queries:
    """The blocks of one file, as attributes."""

    def __init__(self, blocks: dict[str, str]) -> None:
        self.blocks = blocks

    def __getattr__(self, name: str) -> str:
        try:
            return self.blocks[name]
        except KeyError:
            raise AttributeError(f"no query is named {name!r}") from None


@cache
def load(file: str) -> Queries:
    pieces = _NAME.split((_QUERIES / f"{file}.sql").read_text())
    return Queries(dict(zip(pieces[1::2], pieces[2::2], strict=True)))
