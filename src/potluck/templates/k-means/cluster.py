# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "pyopencl"]
# ///
"""k-means on an OpenCL device: each round finds the nearest centre of every point there.

The points lie around centres that a seed chooses, so that what is found can be compared with them.
The centres are left in centres.csv among the task's files.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import pyopencl as cl

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--clusters", type=int, default=8)
    parser.add_argument("--dimensions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    device = chosen_device()
    numbers = np.random.default_rng(asked.seed)
    true_centres = numbers.uniform(-100, 100, (asked.clusters, asked.dimensions))
    belongs = numbers.integers(asked.clusters, size=asked.points)
    spread = numbers.normal(size=(asked.points, asked.dimensions))
    points = (true_centres[belongs] + spread).astype(np.float32)
    print(f"{asked.points:,} points of {asked.dimensions} on {device.name.strip()}", flush=True)
    centres, sizes = clustered(Nearest(device, points, asked.clusters), points, asked.rounds)
    away = np.linalg.norm(true_centres[:, None] - centres[None], axis=2).min(axis=1).max()
    print(f"A true centre is at most {away:.3f} from a computed one.")
    keep(centres, sizes)


def chosen_device() -> cl.Device:
    """A card before a processor: on a machine with a card, that is what was granted."""
    devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    if not devices:
        sys.exit("There is no OpenCL device here: the node's driver lacks OpenCL.")
    return min(devices, key=lambda device: device.type == cl.device_type.CPU)


class Nearest:
    """The points on the device; only centres go there, and choices come back."""

    def __init__(self, device: cl.Device, points: np.ndarray, clusters: int):
        count, dimensions = points.shape
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)
        flags = cl.mem_flags
        self.points = cl.Buffer(self.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=points)
        self.centres = cl.Buffer(self.context, flags.READ_ONLY, clusters * dimensions * 4)
        self.chosen, self.distances = np.empty(count, np.uint8), np.empty(count, np.float32)
        self.outputs = [
            cl.Buffer(self.context, flags.WRITE_ONLY, each.nbytes)
            for each in (self.chosen, self.distances)
        ]
        sizes = [f"-DCLUSTERS={clusters}", f"-DDIMENSIONS={dimensions}"]
        program = cl.Program(self.context, (HERE / "nearest.cl").read_text()).build(sizes)
        self.kernel = cl.Kernel(program, "nearest")

    def to(self, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The number of the nearest centre of each point, and the squared distance."""
        cl.enqueue_copy(self.queue, self.centres, np.ascontiguousarray(centres, np.float32))
        self.kernel(self.queue, self.chosen.shape, None, self.points, self.centres, *self.outputs)
        for values, buffer in zip((self.chosen, self.distances), self.outputs, strict=True):
            cl.enqueue_copy(self.queue, values, buffer)
        return self.chosen, self.distances


def clustered(nearest: Nearest, points: np.ndarray, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Lloyd's rounds, until no centre moves."""
    clusters = nearest.centres.size // points.shape[1] // 4
    centres = scattered(nearest, points, clusters)
    for number in range(1, rounds + 1):
        began = time.perf_counter()
        chosen, distances = nearest.to(centres)
        sizes = np.bincount(chosen, minlength=clusters)
        sums = [np.bincount(chosen, axis, clusters) for axis in points.T.astype(np.float64)]
        # A centre that nothing is near to stays where it is.
        moved = np.where(sizes > 0, sums / np.maximum(sizes, 1), centres.T).T
        shift = float(np.abs(moved - centres).max())
        centres = moved
        took = time.perf_counter() - began
        print(
            f"round {number}: {distances.mean(dtype=np.float64):.4f} off on average,"
            f" moved by {shift:.5f}, {took:.3f} s",
            flush=True,
        )
        if shift < 1e-4:
            break
    return centres, sizes


def scattered(nearest: Nearest, points: np.ndarray, clusters: int) -> np.ndarray:
    """Centres to begin with: each the point that is farthest from all that were chosen before."""
    centres = np.repeat(points[:1].astype(np.float64), clusters, axis=0)
    for number in range(1, clusters):
        _, distances = nearest.to(centres)
        centres[number:] = points[distances.argmax()]
    return centres


def keep(centres: np.ndarray, sizes: np.ndarray) -> None:
    output = Path(os.environ.get("POTLUCK_OUTPUT", "output"))
    output.mkdir(exist_ok=True)
    names = ",".join(f"x{axis}" for axis in range(centres.shape[1]))
    rows = [f"points,{names}"]
    rows += [
        f"{size},{','.join(f'{x:.6f}' for x in centre)}"
        for size, centre in zip(sizes, centres, strict=True)
    ]
    (output / "centres.csv").write_text("\n".join(rows) + "\n")
    print(f"centres.csv: {len(centres)} centres")


if __name__ == "__main__":
    main()
