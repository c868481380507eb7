"""Ids and names in all examples: one pool, one consumer, one machine and one task."""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId

ORIGIN: Final = "https://pool.example.org:8470"
WALLET: Final = "0x3FCf4914fC89B984Ca671C48D27b2814B59E3CA0"
OWNER: Final = "0x7e5F4552091A69125d5DfCb7b8C2659029395Bdf"
NODE_KEY: Final = "0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF"
# A made-up signature of the right length.
SIGNATURE: Final = f"0x{'5c' * 64}1b"

ACCOUNT: Final = AccountId("account_01m7gm2q85jfaf9jspxrgzrx1c")
TASK: Final = TaskId("task_01m7gm2q85jfaf9jspxrgzrx1c")
OTHER_TASK: Final = TaskId("task_01m7gm27j5qac5rmfgwtcrx3k9")
ATTEMPT: Final = AttemptId("attempt_01m7gm2qh3e1r8x0c6d5p4v9bz")
NODE: Final = NodeId("node_01m7gkzc4hf6e3q8t2w9y5n7ka")
DEVICE: Final = DeviceId("device_01m7gkzc4jb2x6r9s0p3v8m1dt")
SESSION: Final = "session_01m7gm1r9fd2k5x8c4w7q0n3ps"
KEY: Final = "key_01m7gm3b6tdf0r4x9k2w8c5q7p"
NODE_KEY_ID: Final = "nodekey_01m7gkz9q1c8d4x7w2r5t0v3bp"
INVITE: Final = "invite_01m7gm5d2xe2jv4x2y8q6r0c1t"
SILENCE: Final = "silence_01m7gm5d2xe2jv4x2y8q6r0c1t"
UPLOAD: Final = "upload_01m7gm4h8yd3k6x9c2w5q7n0ps"
EVENT: Final = "event_01m7gm2yt1q7x3c9v5n8w0r4ka"
WEBHOOK: Final = "webhook_01m7gm6c3zf4k7x0d9w2q5n8ps"
DELIVERY: Final = "delivery_01m7gm6d8af5m2x1e0w3q6n9pt"
VOLUME: Final = "volume_01m7gm4h8yd3k6x9c2w5q7n0ps"
VERSION: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
USER_CODE: Final = "BCDF-GHJK"
SHA256: Final = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
WHEEL: Final = "potluck-0.2.0+5f3a9c1e-py3-none-any.whl"
GPU: Final = "GPU-8c1c5d9e-4a6b-11ef-9e1a-325096b39f47"
LEASE_TOKEN: Final = "kq3v0c8F1xWm6Yt9Rz2bN5sHj7LdPaE4UgXoQiVe-Ts"  # noqa: S105


def at(hour: int, minute: int, second: int = 0) -> datetime:
    """A time on the day of all examples."""
    return datetime(2026, 11, 16, hour, minute, second, tzinfo=UTC)


class Named(NamedTuple):
    """A parameter in a path."""

    description: str
    example: str


IN_PATHS: Final = {
    "account_id": Named("The id of an account.", ACCOUNT),
    "delivery_id": Named("The id of a delivery.", DELIVERY),
    "device_id": Named("The id of a device.", DEVICE),
    "epoch": Named("The number of an epoch.", "12"),
    "file": Named("The name of the wheel.", WHEEL),
    "invite_id": Named("The id of an invite.", INVITE),
    "key_id": Named("The id of an API key.", KEY),
    "silence_id": Named("The id of a silence.", SILENCE),
    "node_id": Named("The id of a node.", NODE),
    "node_key_id": Named("The id of a node key.", NODE_KEY_ID),
    "number": Named("The number of the part, from 0.", "0"),
    "session_id": Named("The id of a session.", SESSION),
    "sha256": Named("The SHA-256 of the bytes, in hexadecimal digits.", SHA256),
    "task_id": Named("The id of a task.", TASK),
    "upload_id": Named("The id of an upload.", UPLOAD),
    "user_code": Named("The code that a terminal shows.", USER_CODE),
    "version": Named("A version of a volume, all 64 digits.", VERSION),
    "volume_id": Named("The id of a volume.", VOLUME),
    "webhook_id": Named("The id of a webhook.", WEBHOOK),
}
