# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "pyopencl"]
# ///
"""Measures an OpenCL device: arithmetic, its memory, and the way to it.

Every figure is checked: what was computed and copied must be right. The figures are also left in
benchmark.json among the task's files.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyopencl as cl

HERE = Path(__file__).parent
STEPS = 4096  # multiplications and additions of one work item
ITEMS = 1 << 16


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--megabytes", type=int, default=128)
    asked = parser.parse_args()
    device = chosen_device()
    print(f"{device.name.strip()} ({device.vendor.strip()}, {device.version.strip()})")
    print(f"{device.max_compute_units} compute units, {device.global_mem_size / 2**30:.1f} GiB")
    bench = Bench(device, asked.seconds, asked.megabytes * 2**20)
    figures = {
        "float_gflops": bench.arithmetic("float_steps", np.float32),
        "int_gops": bench.arithmetic("int_steps", np.int32),
        "copy_gb_per_s": bench.copy(),
        "upload_gb_per_s": bench.upload(),
        "download_gb_per_s": bench.download(),
    }
    for name, figure in figures.items():
        print(f"{name:>18} {figure:10.2f}")
    keep({"device": device.name.strip(), "driver": device.driver_version.strip(), **figures})


def chosen_device() -> cl.Device:
    """A card before a processor: on a machine with a card, that is what was granted."""
    devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    if not devices:
        sys.exit("There is no OpenCL device here: the node's driver lacks OpenCL.")
    return min(devices, key=lambda device: device.type == cl.device_type.CPU)


class Bench:
    def __init__(self, device: cl.Device, seconds: float, size_bytes: int):
        self.seconds = seconds
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)
        source = (HERE / "benchmark.cl").read_text()
        self.program = cl.Program(self.context, source).build([f"-DSTEPS={STEPS}"])
        self.size_bytes = min(size_bytes, device.max_mem_alloc_size // 4 * 4)
        self.host = np.arange(self.size_bytes // 4, dtype=np.uint32)
        self.first = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, self.size_bytes)
        self.second = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, self.size_bytes)

    def arithmetic(self, kernel: str, kind: type) -> float:
        """Billions of operations a second: a multiplication and an addition for each step."""
        result = np.empty(ITEMS, kind)
        kept = cl.Buffer(self.context, cl.mem_flags.WRITE_ONLY, result.nbytes)
        run = cl.Kernel(self.program, kernel)
        rounds = self.per_second(lambda: run(self.queue, (ITEMS,), None, kept))
        cl.enqueue_copy(self.queue, result, kept)
        assert (result == result[0]).all() and result[0] == kind(STEPS + 1), "wrong sums"
        return rounds * ITEMS * STEPS * 2 / 1e9

    def copy(self) -> float:
        """Within the device: what is read and what is written both count."""
        self.write(self.first, self.host)
        rounds = self.per_second(lambda: cl.enqueue_copy(self.queue, self.second, self.first))
        back = np.empty_like(self.host)
        cl.enqueue_copy(self.queue, back, self.second)
        assert (back == self.host).all(), "the copy differs"
        return rounds * self.size_bytes * 2 / 1e9

    def upload(self) -> float:
        return self.per_second(lambda: self.write(self.first, self.host)) * self.size_bytes / 1e9

    def download(self) -> float:
        back = np.empty_like(self.host)
        rounds = self.per_second(lambda: cl.enqueue_copy(self.queue, back, self.first))
        assert (back == self.host).all(), "the bytes that came back differ"
        return rounds * self.size_bytes / 1e9

    def write(self, buffer: cl.Buffer, values: np.ndarray) -> None:
        cl.enqueue_copy(self.queue, buffer, values)

    def per_second(self, work: Callable[[], object]) -> float:
        """How often it is done in a second; the first time, which compiles, is not counted."""
        work()
        self.queue.finish()
        count, began = 0, time.perf_counter()
        while (took := time.perf_counter() - began) < self.seconds or count == 0:
            work()
            self.queue.finish()
            count += 1
        return count / took


def keep(figures: dict[str, object]) -> None:
    output = Path(os.environ.get("POTLUCK_OUTPUT", "output"))
    output.mkdir(exist_ok=True)
    (output / "benchmark.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
