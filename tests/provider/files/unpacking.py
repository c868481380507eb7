"""A process that unpacks archives one after another and says what each of them cost.

It reads the path of an archive a line and answers with one JSON line.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

from potluck.provider.files.unpack import unpack
from potluck.provider.sandbox.driver import InputFailed, WorkDirectory

ROOM_BYTES = 64 * 2**20


def cost(archive: Path, target: Path) -> dict[str, object]:
    """Of this archive alone: the highest memory, and the processor's time, whoever else is busy."""
    target.mkdir()
    Path("/proc/self/clear_refs").write_text("5")
    started = time.process_time()
    refusal = _unpack(archive, target)
    seconds = time.process_time() - started
    found_modes = {
        str(path.relative_to(target)): path.lstat().st_mode for path in target.rglob("*")
    }
    shutil.rmtree(target)
    return {
        "refused": refusal,
        "seconds": seconds,
        "peak_bytes": _peak_bytes(),
        "found": found_modes,
    }


def _unpack(archive: Path, target: Path) -> str | None:
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        unpack(archive, WorkDirectory(descriptor), ROOM_BYTES)
    except InputFailed as failure:
        return str(failure)
    finally:
        os.close(descriptor)
    return None


def _peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    for line in sys.stdin:
        archive = Path(line.strip())
        print(json.dumps(cost(archive, archive.parent / "inside" / "target")), flush=True)
