"""A task's spec as it is kept: JSON that says its own kind."""

import msgspec

from potluck.model.task_spec import TaskSpec
from potluck.wire import codec


class _Kept(msgspec.Struct, frozen=True):
    spec: TaskSpec


def spec_of(kept: bytes) -> TaskSpec:
    return codec.decode_json(b'{"spec":' + kept + b"}", _Kept).spec
