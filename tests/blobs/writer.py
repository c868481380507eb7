"""A process that writes one blob over and over, to be killed: `writer.py DIRECTORY`."""

import asyncio
import itertools
import sys
from pathlib import Path

from potluck.blobs.directory import DirectoryBlobs

SIZE_BYTES = 4_000_000


async def write_forever(directory: Path) -> None:
    blobs = DirectoryBlobs(directory)
    for number in itertools.count():
        await blobs.put("results/one", bytes([number % 256]) * SIZE_BYTES)
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(write_forever(Path(sys.argv[1])))
