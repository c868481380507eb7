# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "pyopencl"]
# ///
"""Draws the Mandelbrot set on an OpenCL device and leaves mandelbrot.png among the task's files."""

import argparse
import os
import struct
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pyopencl as cl

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=1200)
    parser.add_argument("--height", type=int, default=800)
    parser.add_argument("--x", type=float, default=-0.6)
    parser.add_argument("--y", type=float, default=0.0)
    parser.add_argument("--zoom", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=500)
    asked = parser.parse_args()
    device = chosen_device()
    began = time.perf_counter()
    counts = escapes(device, asked)
    took = time.perf_counter() - began
    inside = float((counts == 0).mean())
    print(f"{counts.size:,} points in {took:.2f} s on {device.name.strip()}, {inside:.1%} inside")
    output = Path(os.environ.get("POTLUCK_OUTPUT", "output"))
    output.mkdir(exist_ok=True)
    picture = png(coloured(counts))
    (output / "mandelbrot.png").write_bytes(picture)
    print(f"mandelbrot.png: {asked.width} × {asked.height}, {len(picture):,} bytes")


def chosen_device() -> cl.Device:
    """A card before a processor: on a machine with a card, that is what was granted."""
    devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    if not devices:
        sys.exit("There is no OpenCL device here: the node's driver lacks OpenCL.")
    return min(devices, key=lambda device: device.type == cl.device_type.CPU)


def escapes(device: cl.Device, asked: argparse.Namespace) -> np.ndarray:
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    counts = np.empty((asked.height, asked.width), np.float32)
    kept = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, counts.nbytes)
    program = cl.Program(context, (HERE / "mandelbrot.cl").read_text()).build()
    pixel = 2.5 / asked.zoom / min(asked.width / 1.5, asked.height)
    left = asked.x - pixel * asked.width / 2
    top = asked.y + pixel * asked.height / 2
    numbers = (np.float32(left), np.float32(top), np.float32(pixel), np.int32(asked.steps))
    kernel = cl.Kernel(program, "mandelbrot")
    kernel(queue, (asked.width, asked.height), None, kept, *numbers)
    cl.enqueue_copy(queue, counts, kept)
    return counts


def coloured(counts: np.ndarray) -> np.ndarray:
    """Black inside, from blue to gold outside; waves, so that deep zooms have contrast too."""
    waves = np.log1p(counts)[..., None] * 1.7 + np.array([3.6, 4.3, 5.2])
    colours = (127.5 * (1 + np.sin(waves))).astype(np.uint8)
    colours[counts == 0] = 0
    return colours


def png(pixels: np.ndarray) -> bytes:
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, data) for name, data in parts)


def chunk(name: bytes, data: bytes) -> bytes:
    check = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)


if __name__ == "__main__":
    main()
