"""Whether a Python is one that a task requires.

A pickled function requires one minor version, such as "3.11"; a script may require a range, such as
">=3.11,<3.14". Each pair is compared once, however many tasks and nodes have it.
"""

import re
from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


def is_minor_version(text: str) -> bool:
    return re.fullmatch(r"3\.[0-9]{1,3}", text) is not None


@lru_cache(maxsize=4_096)
def suits_python(required: str, version: str) -> bool:
    """Whether the node's full version, such as "3.11.2", fits; an unknown one does not."""
    if is_minor_version(required):
        return version == required or version.startswith(f"{required}.")
    try:
        return SpecifierSet(required).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False
