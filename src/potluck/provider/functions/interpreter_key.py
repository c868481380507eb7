"""The key of a warm interpreter: attempts reuse only interpreters with an equal key."""

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

# Variables that identify the attempt; each session sends them anew, so they are not in the key.
ATTEMPT_VARIABLES = ("POTLUCK_TASK_ID", "POTLUCK_ATTEMPT_ID", "POTLUCK_ITEM", "POTLUCK_ITEMS")


class WarmKey(Struct, frozen=True):
    """Two attempts with the same key may use one interpreter, one after the other."""

    account_id: str
    digest: str  # of code, environment, variables, secrets, limits, devices, folder and files
    devices: tuple[str, ...]
    memory_bytes: int


class _KeyParts(Struct, frozen=True):
    """Only the hash is kept, since this contains secrets."""

    account_id: str
    code: str
    confinement: Confinement  # environment, variables, secrets, limits, files, device mounts
    devices: list[GrantedDevice]
    folder: BlobRef | None
    alone: str = ""


def make_warm_key(job: PreparedAttempt, spec: FunctionSpec, confinement: Confinement) -> WarmKey:
    grant = job.grant
    code = spec.code.blob.sha256 if spec.code.blob else hashlib.sha256(spec.code.data).hexdigest()
    parts = _KeyParts(
        grant.account_id,
        code,
        replace(confinement, name=""),
        grant.devices,
        spec.folder,
        # An attempt that resumes from a checkpoint needs a directory of its own.
        alone=grant.attempt_id if grant.checkpoint else "",
    )
    encoded = msgspec.msgpack.encode(parts, enc_hook=_text, order="deterministic")
    return WarmKey(
        grant.account_id,
        hashlib.sha256(encoded).hexdigest(),
        device_uuids(grant),
        grant.requirements.memory_bytes,
    )


def device_uuids(grant: Grant) -> tuple[str, ...]:
    return tuple(device.uuid for device in grant.devices)


def _text(value: object) -> str:
    assert isinstance(value, Path)
    return str(value)
