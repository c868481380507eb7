"""What an interpreter belongs to. Nobody is given one that was made for anything else."""

import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from potluck.model.blob import BlobRef
from potluck.model.task_spec import FunctionSpec
from potluck.provider.attempt.types import PreparedAttempt
from potluck.provider.sandbox.driver import Confinement
from potluck.wire.provider import Grant, GrantedDevice

# Of the environment, what says which attempt it is: told anew for each, so it makes no difference.
ATTEMPT_VARIABLES = ("POTLUCK_TASK_ID", "POTLUCK_ATTEMPT_ID", "POTLUCK_ITEM", "POTLUCK_ITEMS")


class WarmKey(Struct, frozen=True):
    """Two attempts with the same key may use one interpreter, one after the other."""

    account_id: str
    digest: str  # of code, environment, variables, secrets, walls, devices, folder and files
    devices: tuple[str, ...]
    memory_bytes: int


class _KeyParts(Struct, frozen=True):
    """All of it; only its hash is kept, as it holds secrets."""

    account_id: str
    code: str
    confinement: Confinement  # environment, variables, secrets, walls, files, what shows devices
    devices: list[GrantedDevice]
    folder: BlobRef | None
    alone: str = ""


def key_of(job: PreparedAttempt, spec: FunctionSpec, confinement: Confinement) -> WarmKey:
    grant = job.grant
    code = spec.code.blob.sha256 if spec.code.blob else hashlib.sha256(spec.code.data).hexdigest()
    parts = _KeyParts(
        grant.account_id,
        code,
        replace(confinement, name=""),
        grant.devices,
        spec.folder,
        # What goes on from a checkpoint begins in a directory of its own.
        alone=grant.attempt_id if grant.checkpoint else "",
    )
    told = msgspec.msgpack.encode(parts, enc_hook=_text, order="deterministic")
    return WarmKey(
        grant.account_id,
        hashlib.sha256(told).hexdigest(),
        device_uuids(grant),
        grant.requirements.memory_bytes,
    )


def device_uuids(grant: Grant) -> tuple[str, ...]:
    return tuple(device.uuid for device in grant.devices)


def _text(value: object) -> str:
    assert isinstance(value, Path)
    return str(value)
