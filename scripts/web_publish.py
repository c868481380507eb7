"""Puts a build of the dashboard where the server finds it, as a whole.

The build is written beside its place and moved there: a server that reads meanwhile finds the old
build, the new one, or one that does not match its manifest, which it leaves alone.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from potluck.server.dashboard import MANIFEST, Manifest, is_name

_BESIDE = ".dashboard-"


def publish(files: Mapping[str, bytes], source: str, folder: Path) -> None:
    """Raises ValueError for a file that a dashboard cannot have."""
    wrong = sorted(name for name in files if not is_name(name))
    if wrong:
        raise ValueError(
            f"{', '.join(wrong)}: a build has index.html and assets/NAME-HASH.EXTENSION only"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f"{_BESIDE}*"):  # by a build that was killed
        shutil.rmtree(left, ignore_errors=True)
    beside = Path(tempfile.mkdtemp(prefix=_BESIDE, dir=folder.parent))
    _write(files, source, beside / "new")
    if folder.exists():
        folder.rename(beside / "old")
    (beside / "new").rename(folder)
    shutil.rmtree(beside)


def _write(files: Mapping[str, bytes], source: str, folder: Path) -> None:
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    manifest = msgspec.json.encode(Manifest(source, digests))
    for name, data in {**files, MANIFEST: msgspec.json.format(manifest, indent=1)}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
