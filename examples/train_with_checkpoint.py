"""Training that can be interrupted: it continues from its checkpoint, also on another node.

potluck run --attempts 3 --checkpoint 5s --output trained examples/train_with_checkpoint.py

$POTLUCK_CHECKPOINT is uploaded every few seconds, and once more when the node stops
the task (SIGTERM). The next attempt gets it back. The contents of $POTLUCK_OUTPUT at the end are
the task's files. It fits a line to noisy points in plain Python, slowly, so that there is something
to interrupt.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

CHECKPOINT = Path(os.environ.get("POTLUCK_CHECKPOINT", "checkpoint"))
OUTPUT = Path(os.environ.get("POTLUCK_OUTPUT", "output"))
STATE = CHECKPOINT / "state.json"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.5, help="that an epoch takes")
    asked = parser.parse_args()
    for directory in (CHECKPOINT, OUTPUT):
        directory.mkdir(exist_ok=True)
    # Finish this epoch: the checkpoint of the last one is complete.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("called back, and all is kept"))
    state = restored()
    if state["epoch"]:
        print(f"continues after epoch {state['epoch']}", flush=True)
    while state["epoch"] < asked.epochs:
        state = trained(state)
        keep(state)
        print(f"epoch {state['epoch']}: loss {state['loss']:.4f}", flush=True)
        time.sleep(asked.seconds)
    line = f"y = {state['slope']:.2f} x + {state['offset']:.2f}"
    print(line)
    (OUTPUT / "line.txt").write_text(f"{line}\n")


def restored() -> dict[str, float]:
    """The state of an earlier attempt, or the initial state."""
    if STATE.exists():
        return dict(json.loads(STATE.read_text()))
    return {"epoch": 0, "slope": 0.0, "offset": 0.0, "loss": 0.0}


def keep(state: dict[str, float]) -> None:
    """Writes a temporary file and renames it, so that no partial file is ever kept."""
    beside = STATE.with_suffix(".new")
    beside.write_text(json.dumps(state))
    beside.replace(STATE)


def trained(state: dict[str, float]) -> dict[str, float]:
    """One gradient step on the squared error over all points."""
    points = noisy_points()
    slope, offset = state["slope"], state["offset"]
    errors = [(slope * x + offset - y, x) for x, y in points]
    return {
        "epoch": state["epoch"] + 1,
        "slope": slope - 0.5 * sum(error * x for error, x in errors) / len(points),
        "offset": offset - 0.5 * sum(error for error, _ in errors) / len(points),
        "loss": sum(error * error for error, _ in errors) / len(points),
    }


def noisy_points() -> list[tuple[float, float]]:
    numbers = random.Random(1)
    across = [numbers.uniform(-2, 2) for _ in range(500)]
    return [(x, 3 * x - 1 + numbers.gauss(0, 0.1)) for x in across]


if __name__ == "__main__":
    main()
