"""Carries bytes between this node and the server, under the lease of one attempt.

Both ways go on where they were cut. Whatever is a matter of the line is repeated until it works;
what the server refuses is raised: StaleLease, QuotaExceeded, NotFound, InvalidInput.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable

from potluck.model.blob import BlobRef
from potluck.model.error import Conflict, NotFound, StaleLease
from potluck.model.lease import Lease
from potluck.provider.server.server_client import Link
from potluck.provider.server.throttle import Throttle
from potluck.wire.files import AddedFile, AddFiles, BeginNodeUpload, KeepCheckpoint, Upload

_MOST_BEGINNINGS = 10

# Bytes of what is sent, from a position on, so many at most.
Read = Callable[[int, int], bytes]


class Courier:
    """For one attempt."""

    def __init__(self, link: Link, lease: Lease, throttle: Throttle) -> None:
        self._link = link
        self._lease = lease
        self._throttle = throttle

    async def fetch(self, blob: BlobRef, start: int) -> AsyncGenerator[bytes, None]:
        """Its bytes from a position on, as far as they come: who gets too few asks again."""
        async with self._link.open_blob(self._lease, blob.sha256, start) as chunks:
            async for chunk in chunks:
                await self._throttle.take(len(chunk))
                yield chunk

    async def pause(self, tries: int) -> None:
        """Before another try."""
        await self._link.pause(tries)

    async def send(self, blob: BlobRef, read: Read) -> None:
        """Returns when the task's account has it."""
        tries = 0
        while True:
            upload = await self._link.begin_upload(BeginNodeUpload(self._lease, blob))
            try:
                await self._send_parts(upload, blob, read)
            except StaleLease:
                raise
            except (NotFound, Conflict):
                # It lay idle for too long, or the server is not where we thought: asked anew.
                tries += 1
                if tries >= _MOST_BEGINNINGS:
                    raise
                await self._link.pause(tries)
            else:
                return

    async def add_files(self, files: tuple[AddedFile, ...]) -> None:
        await self._throttle.take(sum(len(file.data) for file in files))
        await self._link.add_files(AddFiles(self._lease, files))

    async def keep_checkpoint(self, blob: BlobRef) -> None:
        await self._link.keep_checkpoint(KeepCheckpoint(self._lease, blob))

    async def _send_parts(self, upload: Upload, blob: BlobRef, read: Read) -> None:
        while not upload.complete:
            start = upload.parts_done * upload.part_bytes
            if start < blob.size_bytes:
                data = await asyncio.to_thread(read, start, upload.part_bytes)
                await self._throttle.take(len(data))
                number = upload.parts_done
                upload = await self._link.put_part(self._lease, upload.upload_id, number, data)
            else:
                upload = await self._finish(upload)

    async def _finish(self, upload: Upload) -> Upload:
        """A large one takes the server a while; it is asked again until it is done."""
        tries = 0
        while not (done := await self._link.finish_upload(self._lease, upload.upload_id)).complete:
            tries += 1
            await self._link.pause(tries)
        return done
