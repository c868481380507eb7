"""Strict request types, which refuse unknown fields.

Responses use the types of `model` directly, so that an older client understands a newer server.
"""

from typing import Annotated

from msgspec import Meta

from potluck.model.blob import MOST_MOUNTS, VolumeMount
from potluck.model.bounded_types import MOST_DEVICES
from potluck.model.device import DeviceDescription, Measured
from potluck.model.node import NodeDescription, SandboxReport
from potluck.model.task import Limits, Requirements, TaskRequest
from potluck.model.task_spec import CommandSpec, ContainerSpec, FunctionSpec, ScriptSpec
from potluck.model.terms import DeviceTerms
from potluck.model.usage import Usage
from potluck.wire.provider import Finished, ItemsDone, Preparing, RegisterNode, Reports, Started
from potluck.wire.results import MOST_SUBMITTED, SubmitTasks


class StrictVolumeMount(VolumeMount, frozen=True, forbid_unknown_fields=True):
    pass


class StrictRequirements(Requirements, frozen=True, forbid_unknown_fields=True):
    volumes: Annotated[tuple[StrictVolumeMount, ...], Meta(max_length=MOST_MOUNTS)] = ()


class StrictLimits(Limits, frozen=True, forbid_unknown_fields=True):
    pass


class StrictScriptSpec(ScriptSpec, frozen=True, forbid_unknown_fields=True, tag="script"):
    pass


class StrictFunctionSpec(FunctionSpec, frozen=True, forbid_unknown_fields=True, tag="function"):
    pass


class StrictCommandSpec(CommandSpec, frozen=True, forbid_unknown_fields=True, tag="command"):
    pass


class StrictContainerSpec(ContainerSpec, frozen=True, forbid_unknown_fields=True, tag="container"):
    pass


class StrictTaskRequest(TaskRequest, frozen=True, forbid_unknown_fields=True):
    spec: StrictScriptSpec | StrictFunctionSpec | StrictCommandSpec | StrictContainerSpec
    requirements: StrictRequirements = StrictRequirements()
    limits: StrictLimits = StrictLimits()


class StrictSubmitTasks(SubmitTasks, frozen=True, forbid_unknown_fields=True):
    tasks: Annotated[tuple[StrictTaskRequest, ...], Meta(min_length=1, max_length=MOST_SUBMITTED)]


class StrictTerms(DeviceTerms, frozen=True, forbid_unknown_fields=True):
    pass


class StrictMeasured(Measured, frozen=True, forbid_unknown_fields=True):
    pass


class StrictDevice(DeviceDescription, frozen=True, forbid_unknown_fields=True):
    measured: StrictMeasured | None = None
    terms: StrictTerms = StrictTerms()


class StrictSandboxReport(SandboxReport, frozen=True, forbid_unknown_fields=True):
    pass


class StrictNode(NodeDescription, frozen=True, forbid_unknown_fields=True):
    sandbox: StrictSandboxReport
    containers: StrictSandboxReport | None = None
    devices: Annotated[tuple[StrictDevice, ...], Meta(min_length=1, max_length=MOST_DEVICES)]


class StrictRegisterNode(RegisterNode, frozen=True, forbid_unknown_fields=True):
    description: StrictNode


class StrictUsage(Usage, frozen=True, forbid_unknown_fields=True):
    pass


class StrictFinished(Finished, frozen=True, forbid_unknown_fields=True, tag="finished"):
    usage: StrictUsage = StrictUsage()


class StrictReports(Reports, frozen=True, forbid_unknown_fields=True):
    reports: Annotated[
        tuple[Preparing | Started | ItemsDone | StrictFinished, ...],
        Meta(min_length=1, max_length=1_000),
    ]
