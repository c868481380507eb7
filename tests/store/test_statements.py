"""Every statement, on every PostgreSQL that is supported, and every call of one."""

import ast
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from potluck.store import sql_files
from potluck.store.sql_files import bind_many, compile_query

STORE = Path(sql_files.__file__).parent
FILES = sorted(path.stem for path in (STORE / "queries").glob("*.sql"))
QUERIES = {
    f"{file}.{name}": block for file in FILES for name, block in sql_files.load(file).blocks.items()
}


@pytest.mark.parametrize("server", ["database_url", "debian_postgres_url"])
def test_every_statement_is_understood(server: str, request: pytest.FixtureRequest) -> None:
    """The older one knows fewer functions, and guesses fewer types."""
    refused_statements = asyncio.run(_refused(request.getfixturevalue(server)))
    assert refused_statements == {}


async def _refused(url: str) -> dict[str, str]:
    connection = await asyncpg.connect(url)
    refused_statements = {}
    try:
        for name, block in QUERIES.items():
            try:
                prepared = await connection.prepare(block.text)
            except asyncpg.PostgresError as error:
                refused_statements[name] = str(error)
                continue
            if len(prepared.get_parameters()) != len(set(re.findall(r"\$(\d+)", block.text))):
                refused_statements[name] = "a number is in a comment or a text"
            if block.text.lstrip().startswith("SELECT") and not prepared.get_attributes():
                refused_statements[name] = "it has no column, and asyncpg frees such rows wrongly"
    finally:
        await connection.close()
    return refused_statements


def test_no_file_has_numbers_for_parameters() -> None:
    assert [file for file in FILES if re.search(r"\$\d", _source(file))] == []


def test_no_parameter_is_left_in_a_statement() -> None:
    """All were found, also beside casts, slices and operators."""
    code = {name: re.sub(r"--[^\n]*|'[^']*'", "", block.text) for name, block in QUERIES.items()}
    assert [name for name, text in code.items() if re.search(r"(?<!:):\w", text)] == []


def test_every_call_passes_exactly_the_parameters() -> None:
    modules = [Module(path) for path in sorted(STORE.rglob("*.py")) if _file_of(path)]
    calls = [call for module in modules for call in module.calls()]
    assert {name for name, _ in calls} == set(QUERIES)
    wrong = [call for call in calls if call[1] not in (None, QUERIES[call[0]].parameters)]
    assert wrong == []
    # Those that go through a function of their module, which their other tests call.
    passed_on = {name for name, parameters in calls if parameters is None}
    files = {name.partition(".")[0] for name in passed_on}
    assert files == {"event_list", "invariant_snapshot", "sealed"}


def test_missing_and_unknown_names_are_reported() -> None:
    lock = compile_query("tasks.lock", "SELECT FROM tasks WHERE id = :task_id")
    with pytest.raises(TypeError, match=r"tasks\.lock\(\) missing .*'task_id'"):
        lock()
    with pytest.raises(TypeError, match=r"tasks\.lock\(\) got an unexpected .*'kind'"):
        lock(task_id="task_1", kind="script")


def test_unknown_placeholders_stay() -> None:
    source = (
        """SELECT ':a'::text, "b:c", (ARRAY[1])[1:2], d::int -- it's :no parameter\n, :e::int"""
    )
    compiled = compile_query("some", source)
    assert compiled.text == source.replace(":e", "$1") and compiled.parameters == {"e"}


def test_a_parameter_has_one_number_and_its_fields_have_others() -> None:
    class Owner:
        account_id = "account_1"

    compiled = compile_query(
        "some", ":owner.account_id :now :now :owners[].account_id :owner.account_id"
    )
    text, *values = compiled(owner=Owner, now=7, owners=[Owner, Owner])
    assert text == "$1 $2 $2 $3 $1"
    assert values == ["account_1", 7, ["account_1", "account_1"]]
    calls: list[dict[str, Any]] = [{"owner": Owner, "now": now, "owners": []} for now in (1, 2)]
    assert bind_many(compiled, calls) == (text, [("account_1", 1, []), ("account_1", 2, [])])


def _file_of(module: Path) -> str | None:
    """The query file that a module loads."""
    match = re.search(r'^_sql = load\("(\w+)"\)$', module.read_text(), re.MULTILINE)
    return None if match is None else match[1]


def _source(file: str) -> str:
    return (STORE / "queries" / f"{file}.sql").read_text()


class Module:
    """How a module of the store calls its queries."""

    def __init__(self, path: Path) -> None:
        self._file = _file_of(path)
        self._tree = ast.parse(path.read_text())
        # Functions that end with a dictionary of values.
        self._values = {
            node.name: {key.value for key in mapping.keys if isinstance(key, ast.Constant)}
            for node in ast.walk(self._tree)
            if isinstance(node, ast.FunctionDef)
            and isinstance(last := node.body[-1], ast.Return)
            and isinstance(mapping := last.value, ast.Dict)
        }

    def calls(self) -> Iterator[tuple[str, set[object] | None]]:
        """Each query that is named, and what it is called with; None if that is not seen there."""
        for function in self._tree.body:
            assigned = {
                target.id: node.value
                for node in ast.walk(function)
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            seen_names: set[str] = set()
            for call in [node for node in ast.walk(function) if isinstance(node, ast.Call)]:
                is_many = isinstance(call.func, ast.Name) and call.func.id == "bind_many"
                called, *arguments = call.args if is_many else [call.func, *call.args]
                for name in self._queries(called, assigned):
                    seen_names.add(name)
                    yield name, self._given(arguments, call.keywords, assigned)
            yield from (
                (name, None) for name in self._queries(function, {}) if name not in seen_names
            )

    def _queries(self, node: ast.AST, assigned: dict[str, ast.expr]) -> Iterator[str]:
        """`_sql.lock`, or a name that stands for one of two queries."""
        definition = assigned.get(node.id, node) if isinstance(node, ast.Name) else node
        if isinstance(node, ast.expr) and not isinstance(definition, ast.Attribute | ast.IfExp):
            return
        for part in ast.walk(definition):
            match part:
                case ast.Attribute(ast.Name("_sql"), name):
                    yield f"{self._file}.{name}"

    def _given(
        self, values: list[ast.expr], keywords: list[ast.keyword], assigned: dict[str, ast.expr]
    ) -> set[object] | None:
        parameters: set[object] = {keyword.arg for keyword in keywords if keyword.arg}
        remaining = [*values, *(keyword.value for keyword in keywords if not keyword.arg)]
        for value in remaining:
            definition = assigned.get(value.id, value) if isinstance(value, ast.Name) else value
            makers = [
                node.func.id
                for node in ast.walk(definition)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            ]
            if len(makers) != 1 or makers[0] not in self._values:
                return None
            parameters |= self._values[makers[0]]
        return parameters
