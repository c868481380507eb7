"""Named SQL: `queries/tasks.sql` has blocks that start with `-- name: cancel`.

SQL stays in files that editors and psql can read, and is never built from strings. Parameters are
written `:task_id`, and numbered when the file is read. `:owner.account_id` is a field of the
parameter `owner`. `:events[].kind` is a list for `unnest`: that field of each of `events`.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

QUERIES = Path(__file__).parent / "queries"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
# A parameter outside of comments, strings, quoted names and casts.
_PARAMETER = re.compile(r"--[^\n]*|'[^']*'|\"[^\"]*\"|::|:([a-z]\w*(?:\[\])?(?:\.[a-z]\w*)*)")
_FIELD_OF_EACH = re.compile(r"(\w+)\[\](.+)")


class Query(Protocol):
    """A statement. Called with its parameters it returns the arguments for a connection's methods:
    `connection.fetchrow(*_sql.lock(task_id=task_id))`.
    """

    __qualname__: str
    text: str
    parameters: frozenset[str]

    def __call__(self, **values: Any) -> tuple[Any, ...]: ...


def compile_query(name: str, source: str) -> Query:
    """A function with exactly these keywords: Python reports missing and unknown ones."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        path = match[1]
        return numbers.setdefault(path, f"${len(numbers) + 1}") if path else match[0]

    text = _PARAMETER.sub(number, source)
    parameters = dict.fromkeys(re.split(r"\W", path)[0] for path in numbers)
    values = [_FIELD_OF_EACH.sub(r"[_each\2 for _each in \1]", path) for path in numbers]
    keywords = ", ".join(["*", *parameters]) if parameters else ""
    code = f"lambda {keywords}: ({', '.join(['_text', *values])},)"
    query: Query = eval(code, {"_text": text})  # noqa: S307  names that _PARAMETER has matched
    query.__qualname__ = name
    query.text, query.parameters = text, frozenset(parameters)
    return query


# The arguments for `fetchmany`.
BoundCalls = tuple[str, list[tuple[Any, ...]]]


def bind_many(query: Query, calls: Iterable[Mapping[str, Any]]) -> BoundCalls:
    return query.text, [query(**values)[1:] for values in calls]


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
    blocks = read_sources(file).items()
    return Queries({name: compile_query(f"{file}.{name}", source) for name, source in blocks})


@cache
def statement_names() -> dict[str, str]:
    """The name of each statement, such as `tasks.insert`, by its text."""
    files = sorted(path.stem for path in QUERIES.glob("*.sql"))
    queries = [query for file in files for query in load(file).blocks.values()]
    return {query.text: query.__qualname__ for query in queries}


def read_sources(file: str) -> dict[str, str]:
    pieces = _NAME.split((QUERIES / f"{file}.sql").read_text())
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))
