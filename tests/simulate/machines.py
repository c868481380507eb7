"""Machines that register in a history: of several sizes, with GPUs and CPUs, shared and not."""

import random

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.node import NodeDescription, SandboxReport
from potluck.model.task import GIB
from potluck.model.terms import DeviceTerms, TaskKind

_PRICES = (0, 0, 3_600_000)


def description(chance: random.Random, machine: int) -> NodeDescription:
    return NodeDescription(
        name=f"machine-{machine}",
        platform="linux",
        python_version="3.11",
        potluck_version="0.1.0",
        cores=chance.choice([8, 8, 2]),
        memory_bytes=chance.choice([64, 64, 2]) * GIB,
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
        terms=_terms(chance),
    )


def wallet(number: int) -> str:
    """Of the person with this number, as it was signed in with."""
    return f"0x{0xABC0 + number:040X}"


def _terms(chance: random.Random) -> DeviceTerms:
    return DeviceTerms(
        price_micro_per_hour=chance.choice(_PRICES),
        shares_accounts=chance.random() < 0.5,
        is_reclaimable=chance.random() < 0.5,
        memory_share=chance.choice([1.0, 1.0, 1.0, 0.5]),
        fractions=chance.choice([None, None, None, 3, 2, 1]),
        kinds=chance.choice([(), (), (), (TaskKind.SCRIPT,), (TaskKind.CONTAINER,)]),
        allow=_wallets(chance),
        deny=_wallets(chance),
    )


def _wallets(chance: random.Random) -> tuple[str, ...]:
    """Seldom any; one is of nobody. People write them in small letters too."""
    numbers = chance.sample(range(4), k=chance.choice([0, 0, 0, 0, 0, 1, 3]))
    return tuple(chance.choice([wallet, _small])(number) for number in numbers)


def _small(number: int) -> str:
    return wallet(number).lower()
