"""A machine and its devices as its owner sees them, whoever told: it itself, or the server."""

from datetime import datetime

from msgspec import Struct

from potluck.cli.provider.resolve_device import DeviceChoice
from potluck.cli.terminal.units import (
    show_bytes,
    show_count,
    show_milli,
    show_seconds,
    show_since,
)
from potluck.model.device import (
    WHOLE_DEVICE_MILLI,
    Availability,
    DeviceDescription,
    Health,
    Standing,
)
from potluck.model.node import NodeState, SandboxReport
from potluck.provider.control.message import AttemptNow, DeviceNow, ProviderStatus
from potluck.wire.consumer import DeviceView, NodeView
from potluck.wire.device_status import DeviceSample, DeviceStatus

NO_WALLS = "It has no sandbox: it takes your own tasks only, and they run without walls."


class DeviceShown(Struct, frozen=True):
    """One device, what it may do and what it does."""

    number: int
    description: DeviceDescription
    availability: Availability
    why: str
    standing: Standing
    status: DeviceStatus | DeviceSample  # figures; what nobody tells is not there
    serves: str
    id: str = ""  # the pool's, where it is known
    refusal: str = ""  # where it does not do what its owner asks of it

    @property
    def choice(self) -> DeviceChoice:
        return DeviceChoice(self.number, self.description.uuid, self.description.model, self.id)


class MachineView(Struct, frozen=True):
    """What one screen tells."""

    name: str
    node_id: str
    facts: tuple[str, ...]  # short, about the machine as a whole
    problems: tuple[str, ...]
    sandbox: SandboxReport
    devices: tuple[DeviceShown, ...]
    attempts: tuple[AttemptNow, ...] = ()
    remarks: tuple[str, ...] = ()


def told_by_itself(status: ProviderStatus) -> MachineView:
    """What the provider on this machine says."""
    served = [uuid for attempt in status.attempts for uuid in attempt.devices]
    facts = (
        f"at {status.url}",
        *(("draining",) if status.is_draining else ()),
        f"up {show_seconds(status.up_seconds)}",
        f"server heard {show_seconds(status.silent_seconds)} ago",
        *_other_version(status),
    )
    return MachineView(
        name=status.name,
        node_id=status.node_id,
        facts=facts,
        problems=(*((status.problem,) if status.problem else ()), *_other_sandbox(status)),
        sandbox=status.sandbox,
        devices=tuple(
            _by_itself(number, device, served.count(device.description.uuid))
            for number, device in enumerate(status.devices, 1)
        ),
        attempts=status.attempts,
        remarks=(*_warm(status), f"What you allow is in {status.terms_file}."),
    )


def _warm(status: ProviderStatus) -> tuple[str, ...]:
    """What functions keep of the machine although none is called just now."""
    if not status.warm:
        return ()
    count = show_count(len(status.warm), "interpreter")
    memory = show_bytes(sum(each.memory_bytes for each in status.warm))
    return (f"{count} of functions kept warm, {memory} of memory; given up when it is needed.",)


def _other_version(status: ProviderStatus) -> tuple[str, ...]:
    is_same = status.server_version in ("", status.version)
    return () if is_same else (f"potluck {status.version} here, {status.server_version} there",)


def _other_sandbox(status: ProviderStatus) -> tuple[str, ...]:
    """It is changed a moment after it was asked for, and only when nothing runs."""
    wanted, current = status.limits.sandbox, status.sandbox.driver
    is_same = wanted in (None, current)
    return () if is_same else (f"You ask for sandbox={wanted}; {current} is still in force.",)


def told_by_server(node: NodeView, url: str, now: datetime) -> MachineView:
    """What the pool knows of a machine elsewhere."""
    waiting = len(node.wishes)
    problems = {
        NodeState.SILENT: "The server has not heard of it for a while; it gets no new work.",
        NodeState.LEFT: "It is not in the pool now.",
    }
    wishes = f"{show_count(waiting, 'wish', 'wishes')} of yours it has not heard of yet."
    return MachineView(
        name=node.name,
        node_id=node.id,
        facts=(f"at {url}", node.state, f"heard {show_since(node.heartbeat_at, now)}"),
        problems=(problems[node.state],) if node.state in problems else (),
        sandbox=node.sandbox,
        devices=tuple(_by_server(number, each) for number, each in enumerate(node.devices, 1)),
        remarks=(wishes,) if waiting else (),
    )


def _by_itself(number: int, device: DeviceNow, tasks: int) -> DeviceShown:
    return DeviceShown(
        number=number,
        description=device.description,
        availability=device.status.availability,
        why=device.status.why,
        standing=device.standing,
        status=device.status,
        serves=show_count(tasks, "task") if tasks else "",
        refusal=device.refusal,
    )


def _by_server(number: int, device: DeviceView) -> DeviceShown:
    is_free = device.free_milli == WHOLE_DEVICE_MILLI
    uuid = device.description.uuid
    return DeviceShown(
        number=number,
        description=device.description,
        availability=device.availability,
        why=device.why,
        standing=device.standing,
        status=device.sample or DeviceStatus(uuid, health=Health.WELL),
        serves="" if is_free else f"{show_milli(WHOLE_DEVICE_MILLI - device.free_milli)} of it",
        id=device.id,
    )
