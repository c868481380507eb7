"""Measures one OpenCL device and prints the result as JSON, in a child process.

`python -m potluck.provider.measure.benchmark OPENCL_UUID`. Each figure is the best of several runs
of growing length within a fixed time.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from potluck.model.device import Measured
from potluck.provider.detect.opencl import device_named

_SHARE_SECONDS = 0.5
_COPY_BYTES = 2**28
_ITEMS_OF_A_UNIT = 1_024
_TURNS = 256
# Four independent chains of eight numbers, with a multiplication and an addition for each number.
_OPERATIONS_OF_A_TURN = 4 * 8 * 2
_ITEM_BYTES = 8 * 4

_KERNEL = """
#define WORK(name, number, numbers) \\
__kernel void name(__global numbers *result, const number factor, const uint turns) { \\
    const numbers first = (numbers)((number)get_global_id(0)), step = (numbers)((number)1); \\
    numbers a = first, b = a + step, c = b + step, d = c + step; \\
    for (uint turn = 0; turn < turns; turn++) { \\
        a = a * factor + step; b = b * factor + step; \\
        c = c * factor + step; d = d * factor + step; \\
    } \\
    result[get_global_id(0)] = a + b + c + d; \\
}
WORK(floats, float, float8)
WORK(integers, uint, uint8)
"""


def _measured(opencl_uuid: str) -> Measured | None:
    import pyopencl

    device = device_named(pyopencl, opencl_uuid)
    return None if device is None else _DeviceBenchmark(pyopencl, device).measured()


class _DeviceBenchmark:
    def __init__(self, pyopencl: Any, device: Any) -> None:
        self._cl = pyopencl
        self._device = device
        self._context = pyopencl.Context([device])
        self._queue = pyopencl.CommandQueue(self._context)
        self._program = pyopencl.Program(self._context, _KERNEL).build("-cl-mad-enable")

    def measured(self) -> Measured:
        return Measured(
            memory_bytes_per_second=self._copy(),
            float_operations_per_second=self._compute("floats", "float32"),
            integer_operations_per_second=self._compute("integers", "uint32"),
        )

    def _copy(self) -> int:
        """Every byte is read once and written once."""
        device = self._device
        size = min(_COPY_BYTES, device.max_mem_alloc_size // 2, device.global_mem_size // 8)
        flags = self._cl.mem_flags.READ_WRITE
        source, target = (self._cl.Buffer(self._context, flags, size) for _ in range(2))

        def run(times: int) -> None:
            for _ in range(times):
                self._cl.enqueue_copy(self._queue, target, source, byte_count=size)

        return self._best(run, 2 * size)

    def _compute(self, name: str, kind: str) -> int:
        import numpy

        items = self._device.max_compute_units * _ITEMS_OF_A_UNIT
        result = self._cl.Buffer(self._context, self._cl.mem_flags.WRITE_ONLY, _ITEM_BYTES * items)
        kernel, factor = getattr(self._program, name), numpy.dtype(kind).type(1)

        def run(times: int) -> None:
            kernel(self._queue, (items,), None, result, factor, numpy.uint32(times * _TURNS))

        return self._best(run, items * _TURNS * _OPERATIONS_OF_A_TURN)

    def _best(self, run: Callable[[int], None], amount: int) -> int:
        """The best rate per second; the first run is a warm-up and does not count."""
        self._seconds(run, 1)
        best, times, deadline = 0.0, 1, time.monotonic() + _SHARE_SECONDS
        while time.monotonic() < deadline:
            seconds = self._seconds(run, times)
            best = max(best, times * amount / max(seconds, 1e-9))
            if seconds < _SHARE_SECONDS / 8:
                times *= 2
        return int(best)

    def _seconds(self, run: Callable[[int], None], times: int) -> float:
        began = time.perf_counter()
        run(times)
        self._queue.finish()
        return time.perf_counter() - began


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_measured(sys.argv[1])))
