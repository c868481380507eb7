"""A machine with eight cards of different models and sizes, one of them divided by MIG."""

from pathlib import Path

from tests.stubs.nvml import GIB, Card, NvmlRig, Part

H100 = Card(
    "GPU-h100",
    "NVIDIA H100 80GB HBM3",
    80 * GIB,
    capability="9.0",
    pci="0001:17:00.0",
    pcie_generation=5,
    power_limit=700_000,
    power_default=700_000,
    power_least=200_000,
    power_most=700_000,
)
A100 = Card(
    "GPU-a100",
    "NVIDIA A100-SXM4-40GB",
    40 * GIB,
    capability="8.0",
    mig=1,
    processes="7001:2:0 7002:1:0",
    parts=(
        Part("MIG-a100-1", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20 * GIB, gpu_instance=1),
        Part("MIG-a100-2", "NVIDIA A100-SXM4-40GB MIG 4g.20gb", 20 * GIB, gpu_instance=2),
    ),
)
WHOLE = (
    Card("GPU-4090-1", "NVIDIA GeForce RTX 4090", 24 * GIB, processes="4242:0:0 4243:0:0"),
    Card("GPU-4090-2", "NVIDIA GeForce RTX 4090", 24 * GIB, utilisation=97, temperature=83),
    Card("GPU-3060", "NVIDIA GeForce RTX 3060", 12 * GIB, capability="8.6", pcie_width=8),
    Card("GPU-l4", "NVIDIA L4", 24 * GIB, power_limit=72_000, memory_used=3 * GIB),
    Card("GPU-t4", "Tesla T4", 16 * GIB, capability="7.5", pcie_generation=3, ecc=2),
    H100,
)
BROKEN = Card("GPU-broken", "NVIDIA GeForce GTX 1080", 8 * GIB, capability="6.1")
# What is offered of them: the broken one is not, and of the divided one its parts are.
OFFERED = [*(card.uuid for card in WHOLE), "MIG-a100-1", "MIG-a100-2"]


def mixed_rig(directory: Path) -> NvmlRig:
    rig = NvmlRig(directory)
    for card in (WHOLE[0], BROKEN, *WHOLE[1:], A100):
        rig.add(card)
    rig.say(BROKEN.uuid, handle="!999")
    return rig
