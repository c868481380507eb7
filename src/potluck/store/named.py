"""SQL with names: `queries/tasks.sql` holds blocks that start with `-- name: cancel`.

The query is the documentation, so it is kept in a file that an editor and psql can read, and is
never built from strings. Its parameters are written `:task_id`, and numbered when the file is read.
`:owner.account_id` is a field of the parameter `owner`. `:events[].kind` is a list, for `unnest`:
that field of each of `events`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

_QUERIES = Path(__file__).parent / "queries"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
# What is not in a comment, a text, a quoted name or a cast.
_PARAMETER = re.compile(r"--[^\n]*|'[^']*'|\"[^\"]*\"|::|:([a-z]\w*(?:\[\])?(?:\.[a-z]\w*)*)")


class Query:
    """A statement. Called with its parameters it gives what a connection is called with:
    `connection.fetchrow(*_sql.lock(task_id=task_id))`.
    """

    def __init__(self, name: str, source: str) -> None:
        numbers: dict[str, str] = {}

        def number(match: re.Match[str]) -> str:
            path = match[1]
            return numbers.setdefault(path, f"${len(numbers) + 1}") if path else match[0]

        self.name = name
        self.text = _PARAMETER.sub(number, source)
        self._readers = [_reader(path) for path in numbers]
        self.parameters = frozenset(parameter for parameter, _ in self._readers)

    def __call__(self, **values: Any) -> tuple[Any, ...]:
        """The text, and the values in its order."""
        if values.keys() != self.parameters:
            missing, unknown = self.parameters - values.keys(), values.keys() - self.parameters
            raise TypeError(f"{self.name}: missing {sorted(missing)}, unknown {sorted(unknown)}")
        return self.text, *[
            values[parameter] if read is None else read(values[parameter])
            for parameter, read in self._readers
        ]

    def many(self, calls: Iterable[Mapping[str, Any]]) -> tuple[str, list[tuple[Any, ...]]]:
        """For `fetchmany`."""
        return self.text, [self(**values)[1:] for values in calls]


def _reader(path: str) -> tuple[str, Callable[[Any], Any] | None]:
    """A parameter, and how what its path names is read from its value."""
    parameter, _, field = path.partition(".")
    if not field:
        return path, None
    read = attrgetter(field)
    if parameter.endswith("[]"):
        return parameter[:-2], lambda values: list(map(read, values))
    return parameter, read


class Queries:
    """The blocks of one file, as attributes."""

    def __init__(self, blocks: dict[str, Query]) -> None:
        self.blocks = blocks

    def __getattr__(self, name: str) -> Query:
        try:
            return self.blocks[name]
        except KeyError:
            raise AttributeError(f"no query is named {name!r}") from None


@cache
def load(file: str) -> Queries:
    pieces = _NAME.split((_QUERIES / f"{file}.sql").read_text())
    blocks = zip(pieces[1::2], pieces[2::2], strict=True)
    return Queries({name: Query(f"{file}.{name}", source) for name, source in blocks})
