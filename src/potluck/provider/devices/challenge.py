"""Computes the product for a challenge on the device that it names.

Cards, and processors with an OpenCL driver, compute in a child process, so that a driver that hangs
or crashes ends only that. A plain processor computes here.
"""

import asyncio
from operator import mul

from potluck.provider.detect.query_process import Unanswered, output_of, python_module
from potluck.provider.detect.types import FoundDevice
from potluck.wire.device_challenge import PRODUCT_BYTES, make_factors, matrix_rows, pack_product


async def product_on(device: FoundDevice, seed: str, seconds: float) -> bytes | None:
    """None if the device cannot compute it in time."""
    if device.interface == "plain":
        return await asyncio.to_thread(plain_product, seed)
    if not device.opencl_uuid:
        return None
    command = python_module("potluck.provider.devices.opencl_product", device.opencl_uuid, seed)
    try:
        product = bytes.fromhex(await output_of(command, seconds))
    except (Unanswered, ValueError):
        return None
    return product if len(product) == PRODUCT_BYTES else None


def plain_product(seed: str) -> bytes:
    left, right = map(matrix_rows, make_factors(seed))
    columns = list(zip(*right, strict=True))
    return pack_product([[sum(map(mul, row, column)) for column in columns] for row in left])
