"""A lock: the exact list of files that an environment consists of.

It comes from a sandbox, so it is parsed strictly: pinned names with the hashes of their files, and
nothing else that a requirements file may contain.
"""

import re

from potluck.provider.dependencies.environment_cache import digest
from potluck.provider.dependencies.outcome import prepare_failed
from potluck.provider.dependencies.python_facts import PythonFacts

MAX_CHARACTERS = 8 * 2**20

_LINE = re.compile(
    r"[a-z0-9][a-z0-9._-]*==[A-Za-z0-9.!+_-]+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?"
)


def check_lock(text: str) -> str:
    """Returns the text; raises PrepareFailed if it is malformed."""
    lines = text.splitlines()
    if len(text) > MAX_CHARACTERS or not all(_LINE.fullmatch(line) for line in lines):
        problem = next((line for line in lines if not _LINE.fullmatch(line)), "too long")
        raise prepare_failed(
            f"The resolved lock is not a list of pinned packages: {problem[:200]!r}"
        )
    return text


def lock_hash(text: str, python: PythonFacts) -> str:
    """Identifies the environment: the same files for the same Python on the same platform."""
    return digest(text, python.version, python.platform)
