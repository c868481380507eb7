"""Whether this Linux has a library, without loading it: a process that would only find that out is
not started."""

import os
from pathlib import Path

CACHE = Path("/etc/ld.so.cache")
_PLACES = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")


def may_be_here(name: str, cache: Path = CACHE) -> bool:
    """True also where that can not be known, as without the loader's own list of libraries."""
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    if any((Path(place) / name).exists() for place in (*filter(None, named), *_PLACES)):
        return True
    try:
        return name.encode() + b"\0" in cache.read_bytes()
    except OSError:
        return True
