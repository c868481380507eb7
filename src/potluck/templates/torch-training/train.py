# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "torch"]
# ///
"""Trains a small network to tell two spirals apart.

After each epoch it keeps all that it needs to go on in the checkpoint directory, which outlives an
attempt: interrupted and started again, elsewhere too, it continues after its last epoch. The
trained model is left as model.pt among the task's files. PyTorch is installed by the node, from the
block above; where the node's package index has none, the task ends and says so before this runs.
"""

import argparse
import math
import os
from pathlib import Path

import torch
from torch import nn

BATCH = 256


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--examples", type=int, default=4000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "the processor"
    print(f"PyTorch {torch.__version__} on {name}", flush=True)
    torch.manual_seed(asked.seed)
    points, labels = spirals(asked.examples)
    training = Training(network(asked.width).to(device), asked.rate)
    begun = training.restored()
    if begun:
        print(f"continues after epoch {begun}", flush=True)
    points, labels = points.to(device), labels.to(device)
    for epoch in range(begun + 1, asked.epochs + 1):
        loss = training.epoch(points, labels, asked.seed + epoch)
        training.keep(epoch)
        print(f"epoch {epoch}: loss {loss:.4f}", flush=True)
    print(f"{training.accuracy(points, labels):.1%} classified correctly")
    output = Path(os.environ.get("POTLUCK_OUTPUT", "output"))
    output.mkdir(exist_ok=True)
    torch.save(training.model.state_dict(), output / "model.pt")


def spirals(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.arange(count) % 2
    turn = torch.rand(count).sqrt() * 3 * math.pi
    angle = turn + labels * math.pi
    points = torch.stack([turn * angle.cos(), turn * angle.sin()], dim=1) / (3 * math.pi)
    return points + torch.randn(count, 2) * 0.02, labels


def network(width: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(2, width), nn.ReLU()),
        *(nn.Linear(width, width), nn.ReLU()),
        *(nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, 2),
    )


class Training:
    """The model, how it is changed, and where it is kept meanwhile."""

    def __init__(self, model: nn.Module, rate: float):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), rate)
        directory = Path(os.environ.get("POTLUCK_CHECKPOINT", "checkpoint"))
        directory.mkdir(exist_ok=True)
        self.kept = directory / "training.pt"

    def epoch(self, points: torch.Tensor, labels: torch.Tensor, seed: int) -> float:
        order = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))
        total = 0.0
        for batch in order.to(points.device).split(BATCH):
            loss = nn.functional.cross_entropy(self.model(points[batch]), labels[batch])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(batch)
        return total / len(points)

    def accuracy(self, points: torch.Tensor, labels: torch.Tensor) -> float:
        with torch.no_grad():
            return float((self.model(points).argmax(dim=1) == labels).float().mean())

    def keep(self, epoch: int) -> None:
        """Written beside and put in place in one step: a checkpoint is whole, or the one before."""
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        beside = self.kept.with_suffix(".new")
        torch.save({"epoch": epoch, **state}, beside)
        beside.replace(self.kept)

    def restored(self) -> int:
        """The epoch that was kept last; 0 when nothing was."""
        if not self.kept.exists():
            return 0
        kept = torch.load(self.kept, map_location="cpu", weights_only=True)
        self.model.load_state_dict(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])
        return int(kept["epoch"])


if __name__ == "__main__":
    main()
