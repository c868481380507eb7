"""Checks whether this Linux has a library, without loading it: saves starting a child process."""

import os
from pathlib import Path

CACHE = Path("/etc/ld.so.cache")
_PLACES = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")


def may_be_here(name: str, cache: Path = CACHE) -> bool:
    """Also true if that cannot be known, as without the loader's cache."""
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    if any((Path(place) / name).exists() for place in (*filter(None, named), *_PLACES)):
        return True
    try:
        return name.encode() + b"\0" in cache.read_bytes()
    except OSError:
        return True
