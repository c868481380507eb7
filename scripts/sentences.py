"""Lists every sentence that users read, with its place: `make sentences`.

Help texts, errors, hints, waiting reasons and notices are strings of several words; a value in an
f-string is shown as {…}. Docstrings count where they are the help of a command or a
description in the OpenAPI document. HTML pages are listed by their text.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "potluck"
# Their docstrings are help texts or descriptions that the API serves.
SHOWN_DOCSTRINGS = ("cli/", "server/api/", "wire/", "model/")
WORDS = re.compile(r"[A-Za-z…]\S* \S+ \S+")
TAG = re.compile(r"<(script|style).*?</\1>|<[^>]+>", re.DOTALL)


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Texts of at least three words, in the order of the file."""
    tree = ast.parse(path.read_text())
    docstrings = set(_docstrings(tree))
    shows = str(path.relative_to(SOURCE)).startswith(SHOWN_DOCSTRINGS)
    inner = {id(part) for node in ast.walk(tree) for part in _parts(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant | ast.JoinedStr) or id(node) in inner:
            continue
        text = " ".join(_text(node).split())
        if WORDS.search(text) and (shows or id(node) not in docstrings) and "SELECT" not in text:
            yield node.lineno, text


def _docstrings(tree: ast.AST) -> Iterator[int]:
    holders = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, holders) and node.body and isinstance(node.body[0], ast.Expr):
            yield id(node.body[0].value)


def _parts(node: ast.AST) -> list[ast.expr]:
    return node.values if isinstance(node, ast.JoinedStr) else []


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "{…}"


def main() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        for line, text in sorted(sentences(path)):
            print(f"{path.relative_to(ROOT)}:{line}: {text}")
    for page in sorted(SOURCE.rglob("*.html")):
        for line, text in enumerate(TAG.sub(" ", page.read_text()).splitlines(), 1):
            if WORDS.search(text):
                print(f"{page.relative_to(ROOT)}:{line}: {' '.join(text.split())}")


if __name__ == "__main__":
    main()
