"""A command in a container image, or what the image itself runs."""

from potluck.model.task_spec import ContainerSpec
from potluck.provider.kinds.confine import confine
from potluck.provider.kinds.types import Job, Plan


def plan_container(job: Job, spec: ContainerSpec) -> Plan:
    """An empty command is the image's own."""
    return Plan(confine(job, spec.command, spec.image))
