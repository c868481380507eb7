"""What is in the repository holds everywhere: no unfinished marks, and nothing of one machine."""

import re
import tomllib

import pytest

from tests.architecture.repository_files import ROOT, named, tracked_files

# Written so that this file does not contain what it looks for.
FORBIDDEN = {
    "an unfinished mark": r"\b(TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b",
    "a merge conflict": r"^(<{7}|={7}|>{7})( |$)",
    "a path of somebody's machine": r"(?<![\w.])/(home/[a-z]|Users/[a-z]|work/(main|shared)\b)",
    "a token": r"\bpotluck_[A-Za-z0-9_-]{43}\b",
    "a private key": r"BEGIN [A-Z ]*PRIVATE [K]EY",
    "a link into a package cache": r"file://(/opt|/var|/root)\b",
}
HOSTS = re.compile(r"https?://|--(extra-)?index-url|--find-links")
REQUIREMENT = re.compile(r"^[a-z0-9][a-z0-9._-]*(\[[a-z0-9,_-]+\])?==", re.MULTILINE)


def texts() -> dict[str, str]:
    text_by_name = {}
    for path in tracked_files():
        try:
            text_by_name[named(path)] = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
    return text_by_name


@pytest.mark.parametrize("pattern_name", FORBIDDEN)
def test_no_file_has(pattern_name: str) -> None:
    pattern = re.compile(FORBIDDEN[pattern_name], re.MULTILINE)
    offending = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
        for name, text in texts().items()
        if (match := pattern.search(text))
    ]
    assert not offending, f"{pattern_name} in {offending}"


@pytest.mark.parametrize("lock", ["run", "dev", "generator", "release", "web"])
def test_a_lock_names_no_host(lock: str) -> None:
    text = (ROOT / "locks" / f"{lock}.txt").read_text()
    assert not HOSTS.search(text), "say which files, not where they come from; run `make lock`"


@pytest.mark.parametrize("lock", ["run", "dev", "generator", "release", "web"])
def test_a_lock_has_a_hash_for_every_package(lock: str) -> None:
    text = (ROOT / "locks" / f"{lock}.txt").read_text()
    starts = [match.start() for match in REQUIREMENT.finditer(text)]
    pieces = [text[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    bare = [piece.split()[0] for piece in pieces if "--hash=sha256:" not in piece]
    assert pieces and not bare, f"without a hash: {bare}; run `make lock`"


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements = [
        *project["project"]["dependencies"],
        *(
            requirement
            for extra in project["project"]["optional-dependencies"].values()
            for requirement in extra
        ),
        *project["dependency-groups"]["dev"],
    ]
    (page,) = (ROOT / "docs" / "decisions").glob("*-dependencies.md")
    documented = set(re.findall(r"^\| `([A-Za-z0-9_-]+)`", page.read_text(), re.MULTILINE))
    names = {re.split(r"[\[><=;~! ]", requirement)[0] for requirement in requirements}
    assert documented == names, (
        f"{named(page)} and pyproject.toml differ: {sorted(documented ^ names)}"
    )
