"""The configurations of `deploy/`, with the addresses of a test in place of their own."""

from collections.abc import Mapping
from pathlib import Path

DEPLOY = Path(__file__).parents[2] / "deploy"


def adapted(name: str, changes: Mapping[str, str]) -> str:
    """The text of a file, with each of these pieces replaced; all of them must be in it."""
    text = (DEPLOY / name).read_text()
    for before, after in changes.items():
        assert before in text, f"{name} has no {before!r} any more"
        text = text.replace(before, after)
    return text
