"""The names of blobs: lower-case segments between slashes, and nothing that a path could abuse.

They become file names and object names. Users never choose them, so a bad one is a bug of ours and
an assertion, not an answer.
"""

import re

_SEGMENT = "[a-z0-9_][a-z0-9_.-]{0,127}"
_KEY = re.compile(f"{_SEGMENT}(/{_SEGMENT}){{0,7}}")


def check_key(key: str) -> str:
    assert _KEY.fullmatch(key), f"not a blob's name: {key!r}"
    return key


def check_prefix(prefix: str) -> str:
    """Whole segments only: `logs/a/` has nothing of `logs/ab/`."""
    assert not prefix or prefix.endswith("/"), f"a prefix ends with a slash: {prefix!r}"
    if prefix:
        check_key(prefix[:-1])
    return prefix
