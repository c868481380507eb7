"""What is free, node by node: plain and slow, until the quick one is there."""

from collections import Counter
from collections.abc import Callable

import msgspec
from msgspec import Struct

from potluck.decide import feasible
from potluck.decide.feasible import Refusal
from potluck.decide.placement.interface import Placement
from potluck.decide.snapshot import DeviceShare, FreeDevice, FreeNode, RunningAttempt, WaitingTask
from potluck.model.ids import NodeId
from potluck.model.task import Requirements

_ANY_MICRO = 2**62


class Fit(Struct, frozen=True):
    node_id: NodeId
    shares: tuple[DeviceShare, ...]
    price_micro_per_hour: int


class Capacity:
    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._nodes: dict[NodeId, FreeNode] = {}
        self._has_gained = False

    def put_node(self, node: FreeNode) -> None:
        self._nodes[node.id] = node
        self._has_gained = True

    def drop_node(self, node_id: NodeId) -> None:
        self._nodes.pop(node_id, None)

    def learn(self, requirements: Requirements, count: int = 1) -> None:
        pass

    def gained(self) -> bool:
        gained, self._has_gained = self._has_gained, False
        return gained

    def find(
        self,
        task: WaitingTask,
        most_price_micro_per_hour: int | None = None,
        may_use: Callable[[NodeId], bool] | None = None,
    ) -> Fit | None:
        fits: list[tuple[int, int, Fit]] = []
        for node in self._nodes.values():
            if may_use is not None and not may_use(node.id):
                continue
            found = feasible.fit(task, node, _ANY_MICRO)
            if isinstance(found, Refusal):
                continue
            price = found.price_micro_per_hour
            if most_price_micro_per_hour is not None and price > most_price_micro_per_hour:
                continue
            free = sum(device.free_milli for device in node.devices)
            fits.append((node.id in task.failed_on, free, Fit(node.id, found.shares, price)))
        return min(fits, key=lambda each: each[:2])[2] if fits else None

    def take(self, task: WaitingTask, fit: Fit) -> None:
        self._change(fit.node_id, fit.shares, task.requirements, -1)

    def untake(self, task: WaitingTask, fit: Fit) -> None:
        self._change(fit.node_id, fit.shares, task.requirements, 1)

    def give(self, attempt: RunningAttempt) -> None:
        self._change(attempt.node_id, attempt.shares, attempt, 1)
        self._has_gained = True

    def refusals(self, task: WaitingTask) -> Counter[Refusal]:
        answers = (feasible.fit(task, node, _ANY_MICRO) for node in self._nodes.values())
        return Counter(answer for answer in answers if isinstance(answer, Refusal))

    def _change(
        self,
        node_id: NodeId,
        shares: tuple[DeviceShare, ...],
        amounts: Requirements | RunningAttempt,
        sign: int,
    ) -> None:
        node = self._nodes[node_id]
        milli = {share.device_id: sign * share.milli for share in shares}
        self._nodes[node_id] = msgspec.structs.replace(
            node,
            free_cores=node.free_cores + sign * amounts.cores,
            free_memory_bytes=node.free_memory_bytes + sign * amounts.memory_bytes,
            free_disk_bytes=node.free_disk_bytes + sign * amounts.disk_bytes,
            devices=tuple(_changed(device, milli.get(device.id, 0)) for device in node.devices),
        )


def _changed(device: FreeDevice, milli: int) -> FreeDevice:
    return msgspec.structs.replace(device, free_milli=device.free_milli + milli)
