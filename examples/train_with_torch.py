# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "torch"]
# ///
"""PyTorch training that can be interrupted: a small network learns to tell two spirals apart, and
continues from its checkpoint if its node is switched off or reclaimed.

potluck run --gpu 1 --checkpoint 30s --output trained examples/train_with_torch.py

The node installs PyTorch from the block above, which takes minutes the first time. Each epoch is
saved in $POTLUCK_CHECKPOINT; the next attempt, also on another node, loads it and prints
`continues after epoch 17`. At the end the model is among the task's files: trained/model.pt.

`train_with_checkpoint.py` does the same in plain Python.
"""

import math
import os
import sys
from pathlib import Path

import torch
from torch import nn

EPOCHS = int(sys.argv[1]) if sys.argv[1:] else 40
KEPT = Path(os.environ.get("POTLUCK_CHECKPOINT", "."), "training.pt")
MODEL = Path(os.environ.get("POTLUCK_OUTPUT", "."), "model.pt")


def spirals(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.arange(count) % 2
    turn = torch.rand(count).sqrt() * 3 * math.pi
    angle = turn + labels * math.pi
    points = torch.stack([turn * angle.cos(), turn * angle.sin()], dim=1) / (3 * math.pi)
    return points + torch.randn(count, 2) * 0.02, labels


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(1)
points, labels = (each.to(device) for each in spirals(2_000))
layers = [nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)]
model = nn.Sequential(*layers).to(device)
optimizer = torch.optim.Adam(model.parameters(), 0.01)
begun = 0

if KEPT.exists():
    kept = torch.load(KEPT, map_location=device, weights_only=True)
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    begun = kept["epoch"]
    print(f"continues after epoch {begun}", flush=True)

for epoch in range(begun + 1, EPOCHS + 1):
    for batch in torch.randperm(len(points), device=device).split(100):
        loss = nn.functional.cross_entropy(model(points[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # Rename a temporary file, so that the uploaded checkpoint is always complete.
    state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, KEPT.with_suffix(".new"))
    KEPT.with_suffix(".new").replace(KEPT)
    print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)

right = (model(points).argmax(dim=1) == labels).float().mean().item()
torch.save(model.state_dict(), MODEL)
print(f"{right:.1%} are told apart, on {device.type}")
