"""Reads the openb traces, lists of nodes and tasks, into the scheduler's types.

Cores are in thousandths, as in the trace. A task without a GPU runs on the CPU device that every
node has.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from potluck.decide.types import FreeDevice, FreeNode
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.model.task import MIB, Requirements

T = TypeVar("T")

_OWNER = AccountId("openb")
_NODES = "openb_node_list_gpu_node.csv"
_LIST = "openb_pod_list_{}.csv"
_MOST_GPUS = 64  # of one node


class Trace(Struct, frozen=True):
    nodes: list[FreeNode]
    tasks: list[Requirements]  # equal ones are one object

    @property
    def gpu_milli(self) -> int:
        devices = [device for node in self.nodes for device in node.devices]
        return WHOLE_DEVICE_MILLI * sum(device.kind is DeviceKind.GPU for device in devices)


def read_openb(directory: Path, name: str) -> Trace:
    """Reads the nodes and one task list: `default`, or a file name."""
    named = directory / name
    path = named if named.is_file() else directory / _LIST.format(name)
    try:
        nodes = _rows(directory / _NODES, _node)
        interned: dict[Requirements, Requirements] = {}
        tasks = [interned.setdefault(task, task) for task in _rows(path, _task)]
    except FileNotFoundError as error:
        lists = ", ".join(sorted(path.name for path in directory.glob(_LIST.format("*"))))
        raise InvalidInput(
            f"There is no {error.filename}.",
            f"Name a folder of openb traces and one of its lists: {lists or 'none found'}.",
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path.name} or {_NODES} is not a text file.", "Use the files of the openb traces."
        ) from error
    if not tasks or not nodes:
        raise InvalidInput(f"{path.name} is empty.", "Name another list.")
    return Trace(nodes, tasks)


def gpu_milli(task: Requirements) -> int:
    """The GPUs that a task requests, in thousandths."""
    if task.device_kind is not DeviceKind.GPU:
        return 0
    return task.device_count * (task.device_milli or WHOLE_DEVICE_MILLI)


def _rows(path: Path, meant: Callable[[dict[str, str]], T]) -> list[T]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        return [_read(path, rows.line_num, row, meant) for row in rows]


def _read(path: Path, line: int, row: dict[str, str], meant: Callable[[dict[str, str]], T]) -> T:
    try:
        return meant(row)
    except KeyError as error:
        raise InvalidInput(
            f"{path.name} has no column {error.args[0]}.", "Use the files of the openb traces."
        ) from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"Line {line} of {path.name} is not valid.", "Correct the line, or remove it."
        ) from error


def _number(text: str, least: int = 0, most: int = 10**9) -> int:
    number = int(text)
    if not least <= number <= most:
        raise ValueError(f"{number} is not between {least} and {most}")
    return number


def _node(row: dict[str, str]) -> FreeNode:
    name, cores = row["sn"], _number(row["cpu_milli"], least=1)
    memory_bytes = _number(row["memory_mib"]) * MIB
    count = _number(row["gpu"], most=_MOST_GPUS)
    gpus = [_device(f"{name}/{n}", DeviceKind.GPU, row["model"]) for n in range(count)]
    return FreeNode(
        id=NodeId(name),
        account_id=_OWNER,
        own_tasks_only=False,
        cores=cores,
        free_cores=cores,
        free_memory_bytes=memory_bytes,
        free_disk_bytes=0,
        devices=(*gpus, _device(f"{name}/cpu", DeviceKind.CPU, "CPU")),
        memory_bytes=memory_bytes,
    )


def _device(name: str, kind: DeviceKind, model: str) -> FreeDevice:
    return FreeDevice(
        id=DeviceId(name),
        kind=kind,
        model=model,
        memory_bytes=0,
        price_micro_per_hour=0,
        free_milli=WHOLE_DEVICE_MILLI,
    )


def _task(row: dict[str, str]) -> Requirements:
    gpus = _number(row["num_gpu"], most=_MOST_GPUS)
    milli = _number(row["gpu_milli"], least=1 if gpus else 0, most=WHOLE_DEVICE_MILLI)
    return Requirements(
        device_kind=DeviceKind.GPU if gpus else DeviceKind.CPU,
        device_count=max(gpus, 1),
        device_milli=milli if gpus and milli < WHOLE_DEVICE_MILLI else None,
        device_model=row.get("gpu_spec") or None,
        cores=max(_number(row["cpu_milli"]), 1),
        memory_bytes=max(_number(row["memory_mib"]) * MIB, 1),
        disk_bytes=0,
    )
