"""Where things are in this repository, for the tests that read it as text."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "potluck"
DOCS = ROOT / "docs"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def tracked_files() -> list[Path]:
    """What is in the repository, or would be after `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    names = sorted({name for name in output.decode().split("\0") if name})
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def markdown() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".md"]


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, Function):
            yield node


def code_blocks(text: str) -> list[tuple[str, str]]:
    """Each fenced block of a page: what stands behind the fence, and what is in it."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
