"""Machines that register in a history: of several sizes, with GPUs and CPUs, shared and not."""

import random

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.node import NodeDescription, SandboxReport
from potluck.model.task import GIB
from potluck.model.terms import DeviceTerms

_PRICES = (0, 0, 3_600_000)


def description(chance: random.Random, machine: int) -> NodeDescription:
    return NodeDescription(
        name=f"machine-{machine}",
        platform="linux",
        python_version="3.11",
        potluck_version="0.1.0",
        cores=chance.choice([8, 8, 2]),
        memory_bytes=64 * GIB,
        disk_bytes=64 * GIB,
        sandbox=SandboxReport("bwrap"),
        devices=tuple(
            _device(chance, f"card-{machine}-{place}") for place in range(chance.choice([1, 2]))
        ),
    )


def _device(chance: random.Random, uuid: str) -> DeviceDescription:
    return DeviceDescription(
        kind=chance.choice([DeviceKind.GPU, DeviceKind.GPU, DeviceKind.GPU, DeviceKind.CPU]),
        uuid=uuid,
        vendor="NVIDIA",
        model="RTX 4090",
        memory_bytes=24 * GIB,
        is_partition=chance.random() < 0.1,
        terms=DeviceTerms(
            price_micro_per_hour=chance.choice(_PRICES), shares_accounts=chance.random() < 0.5
        ),
    )
