"""Blobs that are named by what is in them: the same bytes are kept once, and checked when read."""

import hashlib

from potluck.blobs.interface import Blobs
from potluck.model.error import Internal


def content_key(data: bytes) -> str:
    """The first two digits are a directory of their own, so that none grows too large."""
    digest = hashlib.sha256(data).hexdigest()
    return f"sha256/{digest[:2]}/{digest}"


async def put_content(blobs: Blobs, data: bytes) -> str:
    """Keeps the bytes and returns their key."""
    key = content_key(data)
    if not await blobs.exists(key):
        await blobs.put(key, data)
    return key


async def get_content(blobs: Blobs, key: str) -> bytes:
    """The very bytes that were put, or an error: a damaged blob is never handed out."""
    data = await blobs.get(key)
    if content_key(data) != key:
        raise Internal(
            f"The stored bytes {key} are damaged.",
            "The server's operator should check the disk and restore the blob from a backup.",
        )
    return data
