"""A task with a stdin: only for nodes that support it, within a size, and no array."""

import pytest

from potluck.decide.admission import admit
from potluck.decide.derived_requirements import derive_requirements
from potluck.model.blob import MOST_STDIN_BYTES, BlobRef
from potluck.model.error import InvalidInput, TooLarge
from potluck.model.task import Requirements, TaskRequest
from potluck.model.task_spec import CommandSpec, ContainerSpec, ScriptSpec, TaskSpec, blobs_of

GIVEN = BlobRef("0" * 64, 4)
SPECS: list[TaskSpec] = [
    ScriptSpec("a.py", "print(1)", stdin=GIVEN),
    CommandSpec(("cat",), stdin=GIVEN),
    ContainerSpec("busybox", ("cat",), stdin=GIVEN),
]


@pytest.mark.parametrize("spec", SPECS)
def test_stdin_is_an_input_and_requires_a_supporting_node(spec: TaskSpec) -> None:
    assert blobs_of(spec) == (GIVEN,)
    assert derive_requirements(TaskRequest(spec), "0x1").stdin


def test_the_requirement_follows_from_the_spec_alone() -> None:
    claimed = TaskRequest(CommandSpec(("cat",)), requirements=Requirements(stdin=True))
    assert not derive_requirements(claimed, "0x1").stdin


def test_stdin_is_limited_and_not_allowed_for_arrays() -> None:
    with pytest.raises(InvalidInput, match="array"):
        admit(TaskRequest(SPECS[1], items=2), 0, None, 60)
    large = CommandSpec(("cat",), stdin=BlobRef("0" * 64, MOST_STDIN_BYTES + 1))
    with pytest.raises(TooLarge, match="64 MiB"):
        admit(TaskRequest(large), 0, None, 60)
    admit(TaskRequest(SPECS[1]), 0, None, 60)
