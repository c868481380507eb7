"""Bodies that ask for as much work as a valid request can."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from potluck.model.bounded_types import MOST_DEVICES
from potluck.wire import routes
from potluck.wire.results import MOST_SUBMITTED
from tests.security.people import SCRIPT, Person
from tests.server.flow.pool import description

Lease = dict[str, str]
_WALLET = "0x{:040x}"


def model_list(number: int, count: int = 8) -> str:
    """Patterns that match nothing, and say so late."""
    return "|".join(f"n*{number:03d}v{index}?*z" for index in range(count))[:200]


def large_offer(person: Person, number: int = 0, wallets: int = 0) -> dict[str, Any]:
    """A node with as many devices as are allowed, no two alike."""
    uuids = [
        f"GPU-{person.node_key.address[2:10]}-{number}-{index}" for index in range(MOST_DEVICES)
    ]
    offered = msgspec.to_builtins(description())
    (card,) = offered["devices"]
    offered["name"] = f"hostile {number}"
    offered["labels"] = [f"label{number}={index}" for index in range(32)]
    names = [_WALLET.format(number + 1) for number in range(wallets)]
    offered["devices"] = [
        {
            **card,
            "uuid": uuid,
            "model": f"NVIDIA {'n' * 150} {number} {place}",
            "memory_bytes": 2**34 + place,
            "terms": {
                "price_micro_per_hour": place,
                "hours": ", ".join(["mon-sun 00:00-23:59"] * 45),
                "deny": names,
            },
        }
        for place, uuid in enumerate(uuids)
    ]
    origin = person.server.client("").post(routes.CHALLENGE.path, {})["origins"][0]
    statements = [person.node_key.state(origin, uuid) for uuid in uuids]
    return {"description": offered, "statements": statements}


def hostile_bodies(operation: str, person: Person, lease: Lease) -> Iterator[Any]:
    """Those for this operation."""
    for make in _MAKERS.get(operation, ()):
        yield make(person, lease)


def _task(number: int = 0, **changes: Any) -> dict[str, Any]:
    needs = {"device_model": model_list(number), "memory_bytes": 2**30 + number}
    return {"spec": SCRIPT, "requirements": needs, **changes}


def _tasks(count: int, make: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    return {"tasks": [make(number) for number in range(count)]}


def _labelled(number: int) -> dict[str, Any]:
    needs = {"labels": [f"l{number}-{index}" for index in range(32)], "cores": 1 + number % 4096}
    return {"spec": SCRIPT, "requirements": needs}


def _owned(number: int, count: int = 100) -> dict[str, Any]:
    owners = [_WALLET.format(number * count + index + 1) for index in range(count)]
    return {"spec": SCRIPT, "requirements": {"owners": owners}, "trust": owners}


def _block(lines: list[str]) -> dict[str, Any]:
    source = "\n".join(["# /// script", *(f"# {line}" for line in lines), "# ///", "print(1)"])
    return {"spec": {**SCRIPT, "source": source}}


def _dependent(person: Person, number: int) -> dict[str, Any]:
    return {"spec": SCRIPT, "after": [person.objects["task_id"]], "priority": number % 100}


def _function(number: int) -> dict[str, Any]:
    markers = " or ".join(f"python_version > '3.{number}'" for number in range(8))
    needs = [f"package{number}-{index} ; {markers}"[:200] for index in range(200)]
    value = {"data": base64.b64encode(b"x").decode()}
    spec = {"kind": "function", "name": "f", "code": value, "inputs": value, "python": "3.11"}
    return {"spec": {**spec, "dependencies": needs}}


def _with_files(number: int, path: str) -> dict[str, Any]:
    files = [
        {"path": f"{path}{index}", "blob": {"sha256": f"{number:060x}{index:04x}", "size_bytes": 1}}
        for index in range(256)
    ]
    return {"spec": {**SCRIPT, "files": files}}


def _keeping(number: int) -> dict[str, Any]:
    patterns = [f"{'com¹x/' * 32}{number}-{index}" for index in range(16)]
    return {"spec": SCRIPT, "limits": {"keep": patterns}}


def _requiring(marker: str) -> dict[str, Any]:
    task = _function(1)
    needs = [f"p{number};{marker}"[:200] for number in range(200)]
    return {"spec": {**task["spec"], "dependencies": needs}}


def _outcomes(lease: Lease, count: int) -> dict[str, Any]:
    outcomes = [[2 * number, "exit_status", 0.0, 1, "x" * 900] for number in range(count)]
    return {"reports": [{"event": "items", "lease": lease, "outcomes": outcomes}]}


def _in_turn(lease: Lease, count: int) -> list[dict[str, Any]]:
    """So that no two in a row are of one kind."""
    kinds = ("preparing", "started")
    return [{"event": kinds[number % 2], "lease": lease} for number in range(count)]


def _end(lease: Lease) -> dict[str, Any]:
    return {"event": "finished", "lease": lease, "reason": "exit_status", "exit_code": 1}


def _part(lease: Lease, number: int) -> dict[str, Any]:
    return {"event": "items", "lease": lease, "outcomes": [[number, "exit_status", 0.0, 1, "x"]]}


def _held(count: int) -> list[Lease]:
    return [
        {"attempt_id": f"attempt_01jd{number:022d}", "token": f"{number:043d}"}
        for number in range(count)
    ]


_DOTTED = [
    ".".join(f"k{number}" for number in range(200)) + f".n{number} = 1" for number in range(70)
]
_FOREIGN = [f"{number:03}{'漢字' * 98}" for number in range(200)]
_REQUIREMENTS = ["dependencies = [", *(f'"p{n}>={"1." * 100}1",' for n in range(200)), "]"]

_MAKERS: dict[str, tuple[Callable[[Person, Lease], Any], ...]] = {
    "submit_task": (
        lambda *_: _task(1),
        lambda *_: _owned(1),
        lambda *_: _block(_DOTTED),
        lambda *_: _block(_REQUIREMENTS),
        lambda *_: _block(["a = " + "[" * 900 + "]" * 900]),
        lambda *_: _function(1),
        lambda *_: _requiring(f"{'(' * 88}os_name=='a'{')' * 88}"),
        lambda *_: _requiring("'a'<'b'or " * 18 + "'a'<'b'"),
        lambda *_: _block(["a." * 8_000 + "b = 1"]),
        lambda *_: _with_files(1, "a/" * 240),
        lambda *_: {"spec": {**SCRIPT, "source": "# /// script\n" * 40_000}},
        lambda *_: {"spec": {**SCRIPT, "source": "#\n" * 250_000}},
        lambda *_: {"spec": {**SCRIPT, "source": "# /// script\n# ///\nx\n" * 24_000}},
        lambda *_: {"spec": {**SCRIPT, "source": "# /// script\n" + "#\n" * 250_000}},
        lambda *_: {"spec": SCRIPT, "items": 1_000_000},
        lambda *_: {"spec": SCRIPT, "matching regex '" * 60_000: 1},
    ),
    "submit_tasks": (
        lambda *_: _tasks(MOST_SUBMITTED, _task),
        lambda *_: _tasks(
            MOST_SUBMITTED, lambda number: {"spec": SCRIPT, "priority": number % 100}
        ),
        lambda *_: _tasks(MOST_SUBMITTED, _labelled),
        lambda *_: _tasks(100, _owned),
        lambda person, _: _tasks(MOST_SUBMITTED, lambda number: _dependent(person, number)),
        lambda *_: _tasks(20, _function),
        lambda *_: _tasks(
            9, lambda _: {"spec": {**_function(1)["spec"], "dependencies": _FOREIGN}}
        ),
        lambda *_: _tasks(MOST_SUBMITTED, lambda number: {"spec": SCRIPT, "items": 1 + number}),
        lambda *_: _tasks(MOST_SUBMITTED, lambda number: {"spec": {**SCRIPT, "filename": "../x"}}),
        lambda *_: _tasks(14, lambda _: _block(_DOTTED)),
        lambda *_: _tasks(6, lambda number: _with_files(number, "é/" * 200)),
        lambda *_: _tasks(240, _keeping),
        lambda *_: _tasks(250, lambda _: {"spec": {"kind": "command", "command": ["1"] * 1_020}}),
        lambda *_: _tasks(
            250, lambda _: {"spec": {**SCRIPT, "environment": {f"V{n}": "" for n in range(250)}}}
        ),
    ),
    "estimate_task": (lambda *_: _task(2), lambda *_: _labelled(3), lambda *_: _owned(2)),
    "register_node": (
        lambda person, _: large_offer(person, 1),
        lambda person, _: large_offer(person, 1, wallets=250),
    ),
    "heartbeat": (
        lambda *_: {"held": _held(9_000)},
        lambda person, _: {
            "devices": [{"uuid": person.uuid, "why": "x" * 900} for _ in range(MOST_DEVICES)]
        },
    ),
    "acquire_leases": (lambda *_: {"held": _held(9_000), "wait_seconds": 0},),
    "report": (
        lambda _, lease: _outcomes(lease, 1_000),
        lambda _, lease: {"reports": [{"event": "started", "lease": lease}] * 1_000},
        lambda *_: {"reports": [{"event": "started", "lease": lease} for lease in _held(1_000)]},
        lambda _, lease: {"reports": [*_in_turn(lease, 998), _end(lease), _end(lease)]},
        lambda _, lease: {"reports": [_part(lease, number) for number in range(1_000)]},
        lambda *_: {
            "reports": [
                {"event": "finished", "lease": lease, "reason": "completed", "exit_code": 0}
                for lease in _held(1_000)
            ]
        },
    ),
    "append_log": (
        lambda _, lease: {"lease": lease, "offset": 0, "pieces": [["stdout", b"x"]] * 4_096},
        lambda _, lease: {"lease": lease, "offset": 0, "pieces": [["stdout", b"x" * 200_000]] * 5},
    ),
    "add_files": (
        lambda _, lease: {
            "lease": lease,
            "files": [{"path": f"{'a/' * 200}{n}", "data": b"x"} for n in range(1_000)],
        },
    ),
    "ask_results": (
        lambda *_: {"tasks": [{"task_id": f"task_01jd{number:022d}"} for number in range(1_000)]},
        lambda person, _: {"tasks": [{"task_id": person.objects["task_id"]}] * 1_000},
    ),
    "change_terms": (
        lambda *_: {"allow": [_WALLET.format(number + 1) for number in range(1_000)]},
        lambda *_: {"hours": ", ".join(["mon-sun 00:00-23:59"] * 47)},
    ),
}
