"""Multiplies two matrices on one OpenCL device and prints the product, in a child process.

`python -m potluck.provider.devices.opencl_product OPENCL_UUID SEED`
"""

import sys
from typing import Any

from potluck.provider.detect.opencl import device_named
from potluck.wire.device_challenge import PRODUCT_BYTES, SIZE, make_factors

_KERNEL = """
__kernel void product(
    __global const uchar *left, __global const uchar *right, __global uint *result)
{
    const uint row = get_global_id(0), column = get_global_id(1), size = get_global_size(0);
    uint sum = 0;
    for (uint at = 0; at < size; at++)
        sum += (uint)left[row * size + at] * (uint)right[at * size + column];
    result[row * size + column] = sum;
}
"""


def _product(opencl_uuid: str, seed: str) -> bytes:
    import pyopencl

    device = device_named(pyopencl, opencl_uuid)
    return b"" if device is None else _multiplied(pyopencl, device, seed)


def _multiplied(pyopencl: Any, device: Any, seed: str) -> bytes:
    context = pyopencl.Context([device])
    queue = pyopencl.CommandQueue(context)
    flags = pyopencl.mem_flags.READ_ONLY | pyopencl.mem_flags.COPY_HOST_PTR
    left, right = (pyopencl.Buffer(context, flags, hostbuf=part) for part in make_factors(seed))
    result = pyopencl.Buffer(context, pyopencl.mem_flags.WRITE_ONLY, PRODUCT_BYTES)
    program = pyopencl.Program(context, _KERNEL).build()
    program.product(queue, (SIZE, SIZE), None, left, right, result)
    product = bytearray(PRODUCT_BYTES)
    pyopencl.enqueue_copy(queue, product, result).wait()
    return bytes(product)


if __name__ == "__main__":
    sys.stdout.write(_product(*sys.argv[1:]).hex())
