"""A machine and its devices as its owner sees them, reported by its provider or by the server."""

from datetime import datetime

from msgspec import Struct

from potluck.cli.provider.resolve_device import DeviceChoice
from potluck.model.device import (
    WHOLE_DEVICE_MILLI,
    Availability,
    DeviceDescription,
    Health,
    Standing,
)
from potluck.model.node import NodeState, SandboxReport
from potluck.model.units import show_bytes, show_count, show_milli, show_seconds, show_since
from potluck.provider.control.message import AttemptNow, DeviceNow, ProviderStatus
from potluck.wire.consumer import DeviceView, NodeView
from potluck.wire.device_status import DeviceSample, DeviceStatus

_NO_SANDBOX = "It has no sandbox: it takes your own tasks only, and they run without isolation."


def own_tasks_only_sentence(sandbox: SandboxReport, tasks: str = "tasks") -> str:
    """Why the sandbox runs tasks of the owner only; empty if it runs others' too."""
    if sandbox.is_safe_for_strangers:
        return ""
    if sandbox.driver == "none":
        return _NO_SANDBOX
    return f"Its sandbox ({sandbox.driver}) {sandbox.weakness}: it takes your own {tasks} only."


class DeviceShown(Struct, frozen=True):
    number: int
    description: DeviceDescription
    availability: Availability
    why: str
    standing: Standing
    status: DeviceStatus | DeviceSample  # measurements; None where not reported
    serves: str
    id: str = ""  # in the pool, if known
    refusal: str = ""  # why a setting of the owner cannot be applied

    @property
    def choice(self) -> DeviceChoice:
        return DeviceChoice(self.number, self.description.uuid, self.description.model, self.id)


class MachineView(Struct, frozen=True):
    name: str
    node_id: str
    facts: tuple[str, ...]  # short phrases about the whole machine
    problems: tuple[str, ...]
    sandbox: SandboxReport
    devices: tuple[DeviceShown, ...]
    attempts: tuple[AttemptNow, ...] = ()
    remarks: tuple[str, ...] = ()


def view_from_provider(status: ProviderStatus) -> MachineView:
    served = [uuid for attempt in status.attempts for uuid in attempt.devices]
    facts = (
        f"at {status.url}",
        *(("draining",) if status.is_draining else ()),
        f"up {show_seconds(status.up_seconds)}",
        f"last contact {show_seconds(status.silent_seconds)} ago",
        *_version_difference(status),
    )
    return MachineView(
        name=status.name,
        node_id=status.node_id,
        facts=facts,
        problems=(
            *(problem for problem in (status.problem, status.pythons_problem) if problem),
            *_pending_sandbox(status),
        ),
        sandbox=status.sandbox,
        devices=tuple(
            _device_from_provider(number, device, served.count(device.description.uuid))
            for number, device in enumerate(status.devices, 1)
        ),
        attempts=status.attempts,
        remarks=(
            *_warm_interpreters(status),
            *_month(status),
            _disk(status),
            f"Your terms are in {status.terms_file}.",
        ),
    )


def _warm_interpreters(status: ProviderStatus) -> tuple[str, ...]:
    """The memory that idle function interpreters hold."""
    if not status.warm:
        return ()
    count = show_count(len(status.warm), "interpreter")
    memory = show_bytes(sum(interpreter.memory_bytes for interpreter in status.warm))
    return (f"{count} for functions kept warm in {memory} of memory; stopped when it is needed.",)


def _month(status: ProviderStatus) -> tuple[str, ...]:
    most, used = status.limits.network_month_bytes, status.network_used_bytes
    if most is None and not used:
        return ()
    of = "" if most is None else f" of {show_bytes(most)}"
    return (f"Tasks have {show_bytes(used)}{of} of network traffic this month.",)


def _disk(status: ProviderStatus) -> str:
    offered = f"Tasks together can have {show_bytes(status.disk_bytes)} of disk"
    if status.limits.disk_bytes is not None and status.limits.disk_bytes > status.disk_bytes:
        offered += f" of the {show_bytes(status.limits.disk_bytes)} that you set: no more is free"
    return f"{offered}. Sandbox {status.sandbox.driver}, disk limited by {status.sandbox.disk}."


def _version_difference(status: ProviderStatus) -> tuple[str, ...]:
    is_same = status.server_version in ("", status.version)
    return () if is_same else (f"potluck {status.version}, server {status.server_version}",)


def _pending_sandbox(status: ProviderStatus) -> tuple[str, ...]:
    """The sandbox changes only when no task runs."""
    requested, current = status.limits.sandbox, status.sandbox.driver
    is_same = requested in (None, current)
    return () if is_same else (f"You set sandbox={requested}; {current} is still in effect.",)


def view_from_server(node: NodeView, url: str, now: datetime) -> MachineView:
    waiting = len(node.wishes)
    problems = {
        NodeState.SILENT: "The server has had no contact with it for a while; it gets no new work.",
        NodeState.LEFT: "It is not in the pool now.",
    }
    pending = f"Not fetched yet: {show_count(waiting, 'request')} from you."
    return MachineView(
        name=node.name,
        node_id=node.id,
        facts=(f"at {url}", node.state, f"last contact {show_since(node.heartbeat_at, now)}"),
        problems=(problems[node.state],) if node.state in problems else (),
        sandbox=node.sandbox,
        devices=tuple(
            _device_from_server(number, device) for number, device in enumerate(node.devices, 1)
        ),
        remarks=(pending,) if waiting else (),
    )


def _device_from_provider(number: int, device: DeviceNow, tasks: int) -> DeviceShown:
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


def _device_from_server(number: int, device: DeviceView) -> DeviceShown:
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
