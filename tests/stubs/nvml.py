"""Machines with NVIDIA cards, as far as NVML tells: see nvml.c.

rig = NvmlRig(tmp_path)
rig.add(Card("GPU-1", "NVIDIA L4", 24 * GIB))
… start a provider with rig.environment …
rig.fall_off("GPU-1")
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import asdict

SOURCE = Path(__file__).with_name("nvml.c")
GIB = 2**30


class Part(Struct, frozen=True):
    """An instance that MIG has made."""

    uuid: str
    name: str
    memory: int
    gpu_instance: int
    compute_instance: int = 0
    processors: int = 14


class Card(Struct, frozen=True):
    """What NVML says about a card, under the keys of nvml.c; milliwatts, as NVML counts them."""

    uuid: str
    name: str
    memory: int
    capability: str = "8.9"
    pci: str = ""  # none: chosen by its place
    pcie_generation: int = 4
    pcie_width: int = 16
    power_limit: int = 300_000
    power_default: int = 300_000
    power_least: int = 100_000
    power_most: int = 350_000
    set_power: int | str = "allowed"
    power: int = 25_000
    temperature: int | str = 40
    utilisation: int | str = 0
    memory_used: int = 0
    ecc: int | str = 0
    slowed: int = 0
    processes: str = "none"
    mig: int = 0
    parts: tuple[Part, ...] = ()


class NvmlRig:
    """The library, and what it answers, which may change at any time."""

    def __init__(self, directory: Path, is_old: bool = False) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or sys.platform != "linux":
            pytest.skip("needs Linux and a C compiler; scripts/test-needs.sh installs one")
        self._directory = directory / "nvml"
        self._directory.mkdir(parents=True)
        library = self._directory / "libnvidia-ml.so.1"
        options = ["-DOLD"] if is_old else []
        command = [compiler, *options, "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True)
        self._scenario = self._directory / "scenario"
        self._lines: dict[tuple[str, str], str] = {("system", "driver"): "550.54.14"}
        self._cards: list[str] = []
        self._write()

    @property
    def environment(self) -> dict[str, str]:
        """For whoever should see these cards."""
        return {"LD_LIBRARY_PATH": str(self._directory), "NVML_RIG": str(self._scenario)}

    def add(self, card: Card) -> None:
        number = len(self._cards)
        self._cards.append(card.uuid)
        values = asdict(card) | {
            "minor": number,
            "pci": card.pci or f"00000000:{number + 1:02X}:00.0",
        }
        for index, part in enumerate(values.pop("parts")):
            self._put(f"card{number}.mig{index}", asdict(part))
        self._put(f"card{number}", values)
        self._write()

    def say(self, uuid: str, **values: object) -> None:
        """From now on; `all="!15"` comes before everything else."""
        self._put(f"card{self._cards.index(uuid)}", values)
        self._write()

    def say_of_the_system(self, **values: object) -> None:
        """`init="!9"`: the driver is not loaded; `count=1_000_000`: a lie."""
        self._put("system", values)
        self._write()

    def fall_off(self, uuid: str) -> None:
        """The bus."""
        self.say(uuid, all="!15")

    def come_back(self, uuid: str) -> None:
        del self._lines[f"card{self._cards.index(uuid)}", "all"]
        self._write()

    def power_limit_watts(self, uuid: str) -> int:
        """As it is set now."""
        place = f"card{self._cards.index(uuid)} power_limit "
        lines = self._scenario.read_text().splitlines()
        return [int(line.removeprefix(place)) for line in lines if line.startswith(place)][
            -1
        ] // 1_000

    def _put(self, place: str, values: dict[str, object]) -> None:
        self._lines |= {(place, key): str(value) for key, value in values.items()}

    def _write(self) -> None:
        counted = {("system", "count"): str(len(self._cards))} | self._lines
        lines = [f"{place} {key} {value}\n" for (place, key), value in counted.items()]
        # Whole or not at all: somebody may be reading.
        fresh = self._scenario.with_suffix(".fresh")
        fresh.write_text("".join(lines))
        fresh.replace(self._scenario)
