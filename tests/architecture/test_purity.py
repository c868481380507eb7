"""What decides is pure: no clock, randomness, environment, file, output or network in it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.repository_files import SOURCE, named

PURE = [*sorted((SOURCE / "decide").rglob("*.py")), SOURCE / "provider" / "state.py"]
FORBIDDEN_MODULES = {
    *("asyncio", "io", "logging", "os", "pathlib", "random", "secrets", "shutil", "socket"),
    *("structlog", "subprocess", "sys", "tempfile", "threading", "time", "uuid"),
}
FORBIDDEN_CALLS = {
    *("open", "print", "input", "exec", "eval", "__import__"),
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today"),
    *("new_account_id", "new_node_id", "new_device_id", "new_task_id", "new_attempt_id"),
}


def impurities(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = []
        yield from (f"imports {name}" for name in names if name.split(".")[0] in FORBIDDEN_MODULES)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in FORBIDDEN_CALLS:
            yield f"calls {ast.unparse(node.func)}"


@pytest.mark.parametrize("path", PURE, ids=named)
def test_decisions_are_pure(path: Path) -> None:
    impurities_found = list(impurities(path.read_text()))
    assert not impurities_found, f"{impurities_found}: take it as an argument instead, as `now` is"


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from random import random",
        "import os.path",
        "from datetime import datetime\nx = datetime.now()",
        "x = open('a')",
        "from potluck.model.ids import new_task_id\nx = new_task_id()",
    ],
)
def test_an_impurity_is_noticed(source: str) -> None:
    assert list(impurities(source))
