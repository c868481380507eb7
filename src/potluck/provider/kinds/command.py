"""A program of the node's system, or one that came along."""

from potluck.model.task_spec import CommandSpec
from potluck.provider.kinds.confine import confine
from potluck.provider.kinds.types import Job, Plan


def plan_command(job: Job, spec: CommandSpec) -> Plan:
    return Plan(confine(job, spec.command))
