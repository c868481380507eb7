"""A body for each operation that takes one: right, so that nothing but the caller decides."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec

from potluck.wire.device_challenge import PRODUCT_BYTES
from tests.security.people import TASK, WEBHOOK, Person
from tests.wallets import Wallet

LEASE = {"attempt_id": "attempt_01jd0000000000000000000000", "token": "x" * 43}
_SIGNED = {"message": "not signed in this century", "signature": "0x"}
_PRODUCT = base64.b64encode(bytes(PRODUCT_BYTES)).decode()
_NO_TASK = {"id": "task_01jd0000000000000000000000", "version": 1}
_BLOB = {"sha256": "1" * 64, "size_bytes": 5}
MESSAGEPACK = {"append_log", "add_files"}
# Plain bytes.
OCTETS = {"put_part", "put_node_part"}

# The person is the one that calls, or somebody where nobody does.
BODIES: dict[str, Callable[[Person], Any]] = {
    "login": lambda _: _SIGNED,
    "browser_login": lambda _: _SIGNED,
    "node_login": lambda _: _SIGNED,
    "refresh": lambda _: {"refresh_token": "potluck_refresh_none"},
    "ask_for_terminal": lambda _: {"machine": "a test"},
    "terminal_token": lambda _: {"device_code": "none"},
    "draft_terminal": lambda person: {
        "address": person.wallet.address,
        "chain_id": 1,
        "origin": person.server.url,
    },
    "approve_terminal": lambda _: _SIGNED,
    "choose_roles": lambda person: {"roles": _own_choice(person)},
    "make_key": lambda _: {"name": "a test", "scopes": ["pool:read"]},
    "authorise_node_key": lambda person: {"delegation": _delegation(person)},
    "submit_task": lambda _: TASK,
    "submit_tasks": lambda _: {"tasks": [TASK]},
    "estimate_task": lambda _: TASK,
    "retry_task": lambda _: {},
    # One item of three bytes, as in wire/item_file.py.
    "append_items": lambda _: {"start": 0, "inputs": "AQAAAAAAAAAAAAAAAAAAAAMAAAAAAAAAZm9v"},
    "preview_action": lambda _: {"action": "cancel", "selection": {"name": "no such name"}},
    "apply_action": lambda _: {"action": "cancel", "tasks": [_NO_TASK]},
    "save_views": lambda _: {"views": [{"page": "tasks", "name": "mine", "query": "state=queued"}]},
    "ask_results": lambda person: {"tasks": [{"task_id": person.objects["task_id"]}]},
    "make_webhook": lambda _: WEBHOOK,
    "change_webhook": lambda _: {"name": "another"},
    "resume_webhook": lambda _: {"skip_missed": True},
    "register_node": lambda person: person.registration(),
    "acquire_leases": lambda _: {"wait_seconds": 0},
    "heartbeat": lambda _: {},
    "report": lambda _: {"reports": [{"event": "started", "lease": LEASE}]},
    "append_log": lambda _: {"lease": LEASE, "offset": 0, "pieces": [["stdout", b"x"]]},
    "begin_upload": lambda _: {"blob": _BLOB},
    "put_part": lambda _: b"part",
    "begin_node_upload": lambda _: {"lease": LEASE, "blob": _BLOB},
    "put_node_part": lambda _: b"part",
    "add_files": lambda _: {"lease": LEASE, "files": [{"path": "a", "data": b"x"}]},
    "put_volume": lambda person: {"name": "another", "manifest": person.manifest},
    "change_volume": lambda _: {"keep_versions": 3},
    "keep_checkpoint": lambda _: {"lease": LEASE, "blob": _BLOB},
    "answer_challenges": lambda _: {
        "answers": [{"uuid": "GPU-none", "seed": "0" * 64, "product": _PRODUCT}]
    },
    "leave": lambda _: {"is_for_good": False},
    "change_terms": lambda _: {"price_micro_per_hour": 1, "is_paused": True},
    "give_order": lambda _: {"order": "reclaim"},
    "set_roles": lambda person: {"roles": ["admin", *_own_choice(person)]},
    "suspend_account": lambda _: {"reason": "a test"},
    "set_quota": lambda _: {"weight": 1},
    "grant_credit": lambda _: {"amount_micro": 1},
    "set_label": lambda _: {"label": ""},
    "choose_rewards": lambda _: {"rewards_to": "credits"},
    "send_claim": lambda _: {"transaction": "0x02f8"},
    "mark_paid": lambda person: {
        "payouts": [{"id": "a test", "wallet": person.wallet.address, "amount_micro": 1}]
    },
    "take_credit": lambda _: {"amount_micro": 1, "reason": "a test"},
    "cordon_node": lambda _: {"reason": "a test"},
    "remove_node": lambda _: {"reason": "a test"},
    "make_invite": lambda _: {},
    "silence_alerts": lambda _: {"seconds": 1},
    "rotate_key": lambda _: {},
}


def encoded(operation: str, person: Person) -> bytes | None:
    if operation not in BODIES:
        return None
    body = BODIES[operation](person)
    if operation in OCTETS:
        return bytes(body)
    encode = msgspec.msgpack.encode if operation in MESSAGEPACK else msgspec.json.encode
    return encode(body)


def content_type(operation: str) -> str:
    if operation in OCTETS:
        return "application/octet-stream"
    return "application/msgpack" if operation in MESSAGEPACK else "application/json"


def _own_choice(person: Person) -> list[str]:
    """The roles that it has, so that it stays what it is in the next cell."""
    roles = person.server.client(person.token).get("/v1/me").get("roles", [])
    return [role for role in roles if role != "admin"]


def _delegation(person: Person) -> dict[str, Any]:
    challenge = person.server.client("").post("/v1/auth/challenge", {})
    return person.wallet.delegation(challenge, Wallet(f"{person.account_id}'s other key"))
