"""The pages lead somewhere: links resolve, commands and files that they name exist."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.repository_files import DOCS, ROOT, SOURCE, code_blocks, markdown, named
from tests.cli.command_line import InProcess

PAGES = markdown()
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
# A command line in a block: with or without a prompt, after variables.
COMMAND = re.compile(r"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(make|potluck) (.+)$")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_resolve(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{named(page)} links to {target}, which is not there"
        if anchor:
            assert anchor in _anchors(file), f"{named(page)} links to {target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_exist(page: Path) -> None:
    for program, arguments in _commands(page):
        words = arguments.split("#")[0].split()
        known_words = _make_targets() if program == "make" else _potluck_words(words[0])
        assert known_words, f"{named(page)}: there is no `potluck {words[0]}`"
        if program == "make":
            targets = [word for word in words if re.fullmatch(r"[a-z-]+", word)][:1]
            assert set(targets) <= known_words, f"{named(page)}: there is no `make {arguments}`"
            continue
        # What follows a script's name belongs to the script.
        options = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        known_words |= _subcommand_words(*words[:2]) | _subcommand_words(*words[:3])
        assert options <= known_words, f"{named(page)}: `potluck {arguments}` has unknown options"


def test_the_two_commands_are_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "make up" in readme and "make test" in readme


def test_the_readme_fits_one_reading() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 250


def test_cells_of_the_architecture_page_are_short() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    cells = [cell for line in page.splitlines() if line.startswith("|") for cell in line.split("|")]
    assert not [cell for cell in cells if len(cell.split()) > 25]


def test_the_files_that_the_architecture_page_names_exist() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    for name in set(re.findall(r"`([\w./-]+\.(?:py|sql|md|toml))`", page)):
        exists = (ROOT / name).exists() or list(SOURCE.rglob(name))
        assert exists, f"ARCHITECTURE.md names {name}"


def test_the_tree_of_the_architecture_page_is_the_tree() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    (tree,) = [body for _, body in code_blocks(page) if "src/potluck/" in body]
    folders = [path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE]
    for folder in folders:
        assert re.search(rf"\b{folder.name}/", tree), f"the tree lacks {named(folder)}"
    for name in re.findall(r"^ {2,}(\w+)/", tree, re.MULTILINE):
        assert list(SOURCE.rglob(name)), f"the tree has {name}/, and there is none"


def test_every_stage_is_on_the_architecture_page() -> None:
    """Each folder of the flow, and the entry module that its docstring names."""
    page = (ROOT / "ARCHITECTURE.md").read_text()
    folders = [path.parent for path in (SOURCE / "server" / "flow").glob("*/__init__.py")]
    for folder in folders:
        (entry,) = re.findall(r"Start with `(\w+)`", (folder / "__init__.py").read_text())
        assert f"flow/{folder.name}/{entry}.py" in page, f"no entry module of {named(folder)}"


def test_the_decisions_are_numbered_and_of_one_shape() -> None:
    pages = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    assert numbers == list(range(1, len(pages) + 1)), "the next free number, without gaps"
    index = (DOCS / "decisions" / "README.md").read_text()
    for page in pages:
        assert page.name in index, f"docs/decisions/README.md does not list {page.name}"
        for heading in ("## Context", "## Decision", "## Why", "## What it costs"):
            assert heading in page.read_text(), f"{page.name} lacks {heading}"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _commands(page: Path) -> list[tuple[str, str]]:
    lines = [
        line
        for fence, body in code_blocks(page.read_text())
        if fence in ("", "console", "sh", "shell")
        for line in body.splitlines()
    ]
    return [match.groups() for line in lines if (match := COMMAND.match(line))]  # type: ignore[misc]


@cache
def _make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@cache
def _all_commands() -> set[str]:
    return set(re.findall(r"^. (\w[\w-]*) {2,}", _help(), re.MULTILINE))


@cache
def _potluck_words(command: str) -> set[str]:
    """The options of a command; empty if there is no such command."""
    if command.startswith("-"):
        return {"--help", "-h"}
    if command not in _all_commands():
        return set()
    return {"--help", *re.findall(r"(?<!\w)--?[a-z][a-z-]*", _help(command))}


@cache
def _subcommand_words(*words: str) -> set[str]:
    """The options of a command in a group, or in a group of a group; empty if it is none."""
    for place, word in enumerate(words[1:], 1):
        subcommands = re.findall(r"^. (\w[\w-]*) {2,}", _help(*words[:place]), re.MULTILINE)
        if word not in subcommands:
            return set()
    return set(re.findall(r"(?<!\w)--?[a-z][a-z-]*", _help(*words)))


@cache
def _help(*command: str) -> str:
    user = InProcess(ROOT / "nobody")
    user.variables |= {"COLUMNS": "200", "TERM": "dumb"}
    result = user.run(*command, "--help")
    assert result.status == 0, result.stderr
    return result.stdout.decode()
