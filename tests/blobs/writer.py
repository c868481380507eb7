"""A process that writes one blob over and over, and does not live to finish.

`writer.py DIRECTORY` is to be killed; `writer.py DIRECTORY BYTES` is ended by the kernel when it
has written that many bytes of its second blob.
"""

import asyncio
import itertools
import resource
import signal
import sys
from pathlib import Path

from potluck.blobs.directory import DirectoryBlobs

SIZE_BYTES = 16_000_000


async def write_forever(directory: Path, die_after_bytes: int | None) -> None:
    blobs = DirectoryBlobs(directory)
    for number in itertools.count():
        await blobs.put("results/one", bytes([number % 256]) * SIZE_BYTES)
        print(number, flush=True)
        if die_after_bytes is not None:
            die_after(die_after_bytes)


def die_after(size_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


if __name__ == "__main__":
    die_after_bytes = int(sys.argv[2]) if len(sys.argv) > 2 else None
    asyncio.run(write_forever(Path(sys.argv[1]), die_after_bytes))
