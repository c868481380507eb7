"""Writes all bytes, however few of them a call takes.

A disk that is almost full takes a part, and says so at the next try.
"""

import os


def write_all(descriptor: int, data: bytes, offset: int | None = None) -> None:
    """From the offset on, or where the file stands."""
    left, done = memoryview(data), 0
    while left:
        if offset is None:
            taken = os.write(descriptor, left)
        else:
            taken = os.pwrite(descriptor, left, offset + done)
        left, done = left[taken:], done + taken
