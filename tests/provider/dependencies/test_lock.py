"""A lock is data from a sandbox: it has one shape, and names one environment."""

from pathlib import Path

import pytest

from potluck.provider.dependencies.directory_size import DirectorySize
from potluck.provider.dependencies.environment_cache import EnvironmentCache
from potluck.provider.dependencies.lock import check_lock, lock_hash
from potluck.provider.dependencies.outcome import PrepareFailed
from potluck.provider.dependencies.python_facts import PythonFacts

HASH = "    --hash=sha256:" + "0a" * 32
PINNED = f"six==1.17.0 \\\n{HASH} \\\n{HASH}\ntorch==2.9.0+cu126 \\\n{HASH}\n"


@pytest.mark.parametrize("text", ["", PINNED])
def test_pinned_names_with_hashes_pass(text: str) -> None:
    assert check_lock(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "six==1.17.0",  # no hash
        "six>=1 \\",
        "six @ file:///etc/passwd \\",
        "-r /etc/passwd",
        "--index-url http://evil.example",
        "../six==1 \\",
        "six==1 ; python_version > '3' \\",
    ],
)
def test_everything_else_that_requirements_can_say_is_refused(line: str) -> None:
    with pytest.raises(PrepareFailed, match="not a list of pinned packages"):
        check_lock(f"{PINNED}{line}\n{HASH}\n")


def test_another_lock_python_or_platform_is_another_environment() -> None:
    python = PythonFacts("3.11.2", "linux", frozenset())
    others = [
        lock_hash(PINNED, python),
        lock_hash("", python),
        lock_hash(PINNED, PythonFacts("3.12.0", "linux", frozenset())),
        lock_hash(PINNED, PythonFacts("3.11.2", "other", frozenset())),
    ]
    assert len(set(others)) == 4


def test_an_environment_without_its_completion_mark_is_not_found(tmp_path: Path) -> None:
    cache = EnvironmentCache(tmp_path)
    staged = tmp_path / "stage"
    (staged / "environment").mkdir(parents=True)
    placed = cache.place(staged, "account_a", "lock", DirectorySize(1, 1))
    assert cache.find("account_a", "lock") == placed
    (placed.parent / "complete.json").unlink()
    assert cache.find("account_a", "lock") is None
