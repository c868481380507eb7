"""The figures of the house: how large the source is, how it is arranged, what one run passes.

    make house
    make house ARGS="--verbose"      every name behind every number
    make house ARGS="--write"        puts the figures into the column `now` of docs/house.md
    make house ARGS="--no-trace"     without starting a platform, in seconds
    make house ARGS="--files run_files.txt"

scripts/source_figures.py reads the source; scripts/run_trace.py traces a real `potluck run`, and
says what counts as passed. The columns `before` and `goal` are those of docs/house.md.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from scripts.run_trace import RunTrace, TraceFailed, trace_run
from scripts.source_figures import (
    MOST_LINES_OF_A_FUNCTION,
    MOST_LINES_OF_A_MODULE,
    MOST_MODULES_IN_A_FOLDER,
    ROOT,
    SourceFigures,
    importers_of_modules,
    line_count,
    measure_source,
    relative,
)

_PAGE = ROOT / "docs" / "house.md"
_FIGURE, _NOW = 0, 2  # columns of the table there


def source_counts(source: SourceFigures) -> dict[str, int]:
    return {
        "Python files": source.python_files,
        "lines of Python": source.python_lines,
        "lines of SQL": source.sql_lines,
        f"folders with more than {MOST_MODULES_IN_A_FOLDER} modules": len(source.large_folders),
        f"modules over {MOST_LINES_OF_A_MODULE} lines": len(source.long_modules),
        f"functions over {MOST_LINES_OF_A_FUNCTION} lines": len(source.long_functions),
        "small modules with one importer, in their folder": len(source.merge_candidates),
        "class names that occur more than once": len(source.repeated_class_names),
    }


def trace_counts(trace: RunTrace) -> dict[str, int]:
    return {
        "files during a run": len(trace.files),
        "files with functions that only the run calls": len(trace.own_files),
        "files that the idle platform does not pass": len(trace.files_not_idle),
        "representations during a run": len(trace.classes),
    }


def details(source: SourceFigures, trace: RunTrace | None) -> dict[str, Mapping[str, object]]:
    """What is behind the counts, by name."""
    found: dict[str, Mapping[str, object]] = {
        "modules in folders": source.modules_in_folders,
        "long modules": source.long_modules,
        "long functions": source.long_functions,
        "merge candidates, and their importers": source.merge_candidates,
        "repeated class names": source.repeated_class_names,
    }
    if trace is not None:
        found["files during a run"] = {relative(path): roles for path, roles in run_files(trace)}
        found["representations during a run"] = _in_order(trace.classes)
    return found


def run_files(trace: RunTrace) -> list[tuple[Path, list[str]]]:
    return [(path, sorted(roles)) for path, roles in sorted(trace.files.items())]


def list_run_files(trace: RunTrace) -> Iterator[str]:
    """A line for each file. The column `idle` says what the idle platform calls in it as well."""
    importers, own, not_idle = importers_of_modules(), trace.own_files, trace.files_not_idle
    yield "lines importers idle processes              file"
    for path, roles in run_files(trace):
        idle = "none" if path in not_idle else "some" if path in own else "all"
        figures = f"{line_count(path):5} {len(importers[path]):9} {idle:4}"
        yield f"{figures} {'+'.join(roles):22} {relative(path)}"


def read_page() -> dict[str, list[str]]:
    """The rows of docs/house.md: figure, before, now, goal."""
    return {
        cells[_FIGURE]: cells for line in _PAGE.read_text().splitlines() if (cells := _row(line))
    }


def write_page(counts: Mapping[str, int]) -> None:
    lines = []
    for line in _PAGE.read_text().splitlines():
        cells = _row(line)
        if cells and cells[_FIGURE] in counts:
            cells[_NOW] = f"{counts[cells[_FIGURE]]:,}"
            line = f"| {' | '.join(cells)} |"
        lines.append(line)
    _PAGE.write_text("\n".join(lines) + "\n")


def show_counts(counts: Mapping[str, int]) -> Iterator[str]:
    rows = read_page()
    width = max(map(len, counts))
    yield f"{'':{width}} {'before':>8} {'now':>8} {'goal':>8}"
    for figure, now in counts.items():
        _, before, _, goal = rows.get(figure, ["", "", "", ""])
        yield f"{figure:{width}} {before:>8} {now:>8,} {goal:>8}"


def show_details(found: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    for title, entries in found.items():
        yield f"\n{title}:"
        for name, value in entries.items():
            yield f"  {name}: {', '.join(value) if isinstance(value, list) else value}"


def main() -> None:
    given = _arguments()
    source = measure_source()
    try:
        trace = None if given.no_trace else trace_run()
    except TraceFailed as error:
        sys.exit(str(error))
    counts = source_counts(source) | ({} if trace is None else trace_counts(trace))
    found = details(source, trace)
    if given.write:
        write_page(counts)
    if given.files is not None and trace is not None:
        given.files.write_text("\n".join(list_run_files(trace)) + "\n")
    if given.json:
        print(json.dumps({"counts": counts, **(found if given.verbose else {})}, indent=2))
        return
    _print(show_counts(counts))
    _print(show_details(found if given.verbose else {"large folders": source.large_folders}))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--verbose", action="store_true", help="print the names behind the numbers")
    parser.add_argument("--write", action="store_true", help="update docs/house.md")
    parser.add_argument("--no-trace", action="store_true", help="do not run a task")
    parser.add_argument("--files", type=Path, help="write the files that the run passes to here")
    return parser.parse_args()


def _row(line: str) -> list[str]:
    """The cells of a table's row; none for any other line."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return cells if line.startswith("| ") and len(cells) == 4 else []


def _in_order(seen: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    return {name: sorted(roles) for name, roles in sorted(seen.items())}


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


if __name__ == "__main__":
    main()
