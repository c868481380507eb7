"""The size and the shape of the source, read from its text: nothing is imported or run.

`src` and `verification` are measured alike, so that lines do not vanish by moving.
"""

import ast
from collections import Counter, defaultdict
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "potluck"
MOST_MODULES_IN_A_FOLDER = 25
MOST_LINES_OF_A_MODULE = 400
MOST_LINES_OF_A_FUNCTION = 60
# A module that only one neighbour imports may be this long before it deserves a file of its own.
MOST_LINES_OF_A_MERGE_CANDIDATE = 60

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class SourceFigures(NamedTuple):
    """Everything that is measured here. Names are relative to the repository."""

    python_files: int
    python_lines: int
    sql_lines: int
    modules_in_folders: dict[str, int]
    large_folders: dict[str, int]
    long_modules: dict[str, int]
    long_functions: dict[str, int]
    merge_candidates: dict[str, str]  # a module, and its only importer
    repeated_class_names: dict[str, list[str]]  # a name, and the classes that have it


def measure_source() -> SourceFigures:
    return SourceFigures(
        python_files=len(modules()),
        python_lines=sum(line_count(path) for path in modules()),
        sql_lines=sum(line_count(path) for path in _files(".sql")),
        modules_in_folders=modules_in_folders(),
        large_folders=large_folders(),
        long_modules=long_modules(),
        long_functions=long_functions(),
        merge_candidates=merge_candidates(),
        repeated_class_names=repeated_class_names(),
    )


def modules() -> list[Path]:
    return _files(".py")


def modules_in_folders() -> dict[str, int]:
    """The number of modules of each folder, `__init__.py` among them, largest first."""
    return dict(Counter(relative(path.parent) for path in modules()).most_common())


def large_folders() -> dict[str, int]:
    sizes = modules_in_folders()
    return {folder: count for folder, count in sizes.items() if count > MOST_MODULES_IN_A_FOLDER}


def long_modules() -> dict[str, int]:
    sizes = {relative(path): line_count(path) for path in modules()}
    return {name: lines for name, lines in sizes.items() if lines > MOST_LINES_OF_A_MODULE}


def long_functions() -> dict[str, int]:
    sizes = {
        f"{relative(path)}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in modules()
        for node in ast.walk(parse(path))
        if isinstance(node, _Function)
    }
    return {name: lines for name, lines in sizes.items() if lines > MOST_LINES_OF_A_FUNCTION}


def merge_candidates() -> dict[str, str]:
    """Short modules whose only importer is in the same folder, and that importer."""
    candidates = {}
    for path, importers in importers_of_modules().items():
        if len(importers) != 1 or path.name == "__init__.py":
            continue
        (importer,) = importers
        is_short = line_count(path) <= MOST_LINES_OF_A_MERGE_CANDIDATE
        if is_short and importer.parent == path.parent:
            candidates[relative(path)] = relative(importer)
    return candidates


@cache
def importers_of_modules() -> dict[Path, set[Path]]:
    """For each module of the package, the modules that import it, anywhere in their code."""
    names = {_module_name(path): path for path in modules() if path.is_relative_to(PACKAGE)}
    importers: dict[Path, set[Path]] = {path: set() for path in names.values()}
    for importer in modules():
        for name in _imported_names(importer):
            path = names.get(name) or names.get(name.rpartition(".")[0])
            if path is not None and path != importer:
                importers[path].add(importer)
    return importers


def repeated_class_names() -> dict[str, list[str]]:
    """Class names that the package has more than once, nested and private classes included.

    A leading underscore makes no other name: to a reader, `_Entry` and `Entry` are two entries.
    """
    classes = defaultdict(list)
    for path, qualified_name in classes_of_package():
        place = f"{relative(path)}:{qualified_name}"
        classes[qualified_name.rpartition(".")[2].lstrip("_")].append(place)
    return {name: places for name, places in sorted(classes.items()) if len(places) > 1}


def classes_of_package() -> list[tuple[Path, str]]:
    """Each class of the package: its module and its qualified name."""
    return [
        (path, name)
        for path in modules()
        if path.is_relative_to(PACKAGE)
        for name in _class_names(parse(path), "")
    ]


def line_count(path: Path) -> int:
    return len(path.read_bytes().splitlines())


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def _files(suffix: str) -> list[Path]:
    folders = (SOURCE, ROOT / "verification")
    return sorted(path for folder in folders for path in folder.rglob(f"*{suffix}"))


def _module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported_names(path: Path) -> set[str]:
    """Full names, each of a module or of something in one."""
    base = SOURCE if path.is_relative_to(SOURCE) else ROOT
    package = ".".join(path.parent.relative_to(base).parts)
    names: set[str] = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            names.update(f"{module}.{alias.name}" for alias in node.names)
    return names


def _class_names(node: ast.AST, prefix: str) -> list[str]:
    names: list[str] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            names += [prefix + child.name, *_class_names(child, f"{prefix}{child.name}.")]
        elif isinstance(child, _Function):
            names += _class_names(child, f"{prefix}{child.name}.<locals>.")
        else:
            names += _class_names(child, prefix)
    return names
