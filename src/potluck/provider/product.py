"""The product that a challenge asks for, computed on the device that it names.

A card, or a processor that has a driver, computes through OpenCL, in a child process: a driver that
hangs or crashes takes only that one down. A plain processor computes here.
"""

import asyncio
import sys
from operator import mul

from potluck.model.device import DeviceDescription
from potluck.provider.detect import nvidia
from potluck.provider.detect.child import output_of
from potluck.wire.challenge import PRODUCT_BYTES, factors, packed, rows


async def product_on(device: DeviceDescription, seed: str, seconds: float) -> bytes | None:
    """None where the device can not be computed on in that time."""
    if device.interface == "plain":
        return await asyncio.to_thread(plain_product, seed)
    slot = await _slot(device, seconds)
    # -P keeps the working directory, which may be anybody's, off the child's import path.
    command = (sys.executable, "-P", "-m", "potluck.provider.opencl_product")
    said = await output_of((*command, device.kind, device.uuid, slot, seed), seconds)
    try:
        product = bytes.fromhex(said)
    except ValueError:
        return None
    return product if len(product) == PRODUCT_BYTES else None


def plain_product(seed: str) -> bytes:
    left, right = map(rows, factors(seed))
    columns = list(zip(*right, strict=True))
    return packed([[sum(map(mul, row, column)) for column in columns] for row in left])


async def _slot(device: DeviceDescription, seconds: float) -> str:
    """Where OpenCL finds a card that its vendor's tool has named; empty for all others."""
    if device.interface != "cuda":
        return ""
    return next((one.slot for one in await nvidia.find(seconds) if one.uuid == device.uuid), "")
