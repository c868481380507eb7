# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "pyopencl"]
# ///
"""Multiplies two matrices on an OpenCL device, and checks rows of the product with numpy."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pyopencl as cl

HERE = Path(__file__).parent
CHECKED_ROWS = 16
BLOCK = 8  # what the kernel's rows and columns are a multiple of


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", choices=["no", "yes"], default="no")
    asked = parser.parse_args()
    device = chosen_device()
    print(f"{asked.size} × {asked.size} on {device.name.strip()}", flush=True)
    numbers = np.random.default_rng(asked.seed)
    left, right = (numbers.random((asked.size, asked.size), np.float32) - 0.5 for _ in range(2))
    product, seconds = multiplied(device, left, right, asked.rounds)
    error = worst_error(left, right, product)
    if error > 1e-4 * asked.size**0.5:
        sys.exit(f"The product is wrong: it is off by up to {error:g}.")
    best = 2 * asked.size**3 / min(seconds) / 1e9
    print(f"{best:.2f} GFLOP/s at best of {asked.rounds} rounds, off by up to {error:.1e}")
    output = Path(os.environ.get("POTLUCK_OUTPUT", "output"))
    output.mkdir(exist_ok=True)
    told = {"device": device.name.strip(), "size": asked.size, "seconds": seconds, "gflops": best}
    (output / "product.json").write_text(json.dumps(told, indent=2) + "\n")
    if asked.save == "yes":
        np.save(output / "product.npy", product)


def chosen_device() -> cl.Device:
    """A card before a processor: on a machine with a card, that is what was granted."""
    devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    if not devices:
        sys.exit("There is no OpenCL device here: the node's driver lacks OpenCL.")
    return min(devices, key=lambda device: device.type == cl.device_type.CPU)


def multiplied(
    device: cl.Device, left: np.ndarray, right: np.ndarray, rounds: int
) -> tuple[np.ndarray, list[float]]:
    """The product, and the seconds of each round. The edges are filled up with zeros."""
    size = len(left)
    padded = -(-size // BLOCK) * BLOCK
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    flags = cl.mem_flags
    space = [(0, padded - size)] * 2
    inputs = [
        cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=np.pad(each, space))
        for each in (left, right)
    ]
    kept = cl.Buffer(context, flags.WRITE_ONLY, padded * padded * 4)
    source = (HERE / "multiply.cl").read_text()
    program = cl.Program(context, source).build([f"-DSIZE={padded}"])
    multiply = cl.Kernel(program, "multiply")
    seconds = []
    for _ in range(rounds + 1):  # the first one compiles, and is not counted
        began = time.perf_counter()
        multiply(queue, (padded // 8, padded // 4), None, *inputs, kept)
        queue.finish()
        seconds.append(time.perf_counter() - began)
    product = np.empty((padded, padded), np.float32)
    cl.enqueue_copy(queue, product, kept)
    return product[:size, :size], seconds[1:]


def worst_error(left: np.ndarray, right: np.ndarray, product: np.ndarray) -> float:
    rows = np.linspace(0, len(left) - 1, min(CHECKED_ROWS, len(left)), dtype=int)
    exact = left[rows].astype(np.float64) @ right.astype(np.float64)
    return float(np.abs(product[rows] - exact).max())


if __name__ == "__main__":
    main()
