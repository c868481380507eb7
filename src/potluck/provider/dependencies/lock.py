"""A lock: the text that says exactly which files an environment is made of.

It comes out of a sandbox, so it is read as data and must have this one shape: pinned names, each
with the hashes of its files. Nothing else that a requirements file could say gets through.
"""

import re

from potluck.provider.dependencies.environment_cache import digest
from potluck.provider.dependencies.outcome import failed
from potluck.provider.dependencies.python_facts import PythonFacts

MAX_CHARACTERS = 8 * 2**20

_LINE = re.compile(
    r"[a-z0-9][a-z0-9._-]*==[A-Za-z0-9.!+_-]+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?"
)


def check_lock(text: str) -> str:
    """The same text, or PrepareFailed."""
    lines = text.splitlines()
    if len(text) > MAX_CHARACTERS or not all(_LINE.fullmatch(line) for line in lines):
        odd = next((line for line in lines if not _LINE.fullmatch(line)), "too long")
        raise failed(
            f"The package index gave no list of pinned packages with hashes: {odd[:200]!r}"
        )
    return text


def lock_hash(text: str, python: PythonFacts) -> str:
    """Names the environment: the same files for the same Python on the same platform."""
    return digest(text, python.version, python.platform)
