"""Which kind a task is, and with that what it needs and how it is run."""

from typing import assert_never

from potluck.model.script import ScriptMetadata
from potluck.model.task_spec import (
    CommandSpec,
    ContainerSpec,
    FunctionSpec,
    ScriptSpec,
    TaskSpec,
)
from potluck.provider.kinds.command import plan_command
from potluck.provider.kinds.container import plan_container
from potluck.provider.kinds.script import needs_of, plan_script
from potluck.provider.kinds.types import Job, Plan


def dependencies_of(spec: TaskSpec) -> ScriptMetadata:
    """What has to be installed for it."""
    match spec:
        case ScriptSpec():
            return needs_of(spec)
        case FunctionSpec():
            return ScriptMetadata(dependencies=spec.dependencies)
        case CommandSpec() | ContainerSpec():
            return ScriptMetadata()
        case _:
            assert_never(spec)


def plan_of(job: Job, spec: ScriptSpec | CommandSpec | ContainerSpec) -> Plan:
    match spec:
        case ScriptSpec():
            return plan_script(job, spec)
        case CommandSpec():
            return plan_command(job, spec)
        case ContainerSpec():
            return plan_container(job, spec)
        case _:
            assert_never(spec)
