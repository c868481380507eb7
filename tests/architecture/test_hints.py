"""Messages name commands and pages of the server: an installed package has no `docs/`."""

import ast

from scripts.sentences import SOURCE, sentences
from tests.architecture.repository_files import ROOT


def test_no_message_names_a_page_of_the_repository() -> None:
    shown = (
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in sentences(path)
        if "docs/" in text and not _is_docstring(path.read_text(), line)
    )
    assert not list(shown)


def _is_docstring(source: str, line: int) -> bool:
    holders = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return any(
        isinstance(node, holders) and node.body and node.body[0].lineno == line
        for node in ast.walk(ast.parse(source))
    )
