"""`make fuzz-cost`: which request of each operation takes the server's event loop the longest.

Prints JSON: the worst request of each operation with the processor time of the loop's thread, and
how long a bystander's `GET /v1/me` takes while three hostile accounts send the worst of all, and
while nobody does. Ends with 1 if a request takes longer than the limit, or the bystander waits
longer than its own; both are scaled by the speed of the machine. It takes about fifteen minutes.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from potluck.wire import routes
from tests.databases import embedded_databases
from tests.fuzz.cost.bystander import measure_bystander
from tests.fuzz.cost.hostile_bodies import large_offer
from tests.fuzz.cost.large_pool import LargePool
from tests.fuzz.cost.meter import USUAL_MILLISECONDS, LoopMeter, speed_milliseconds
from tests.fuzz.cost.search import Candidate, CostlyRequest, CostSearch
from tests.fuzz.fuzz_client import PATIENCE
from tests.processes import ServerProcess
from tests.security.people import Person
from tests.security.permission_matrix import operations

MOST_MILLISECONDS = 50.0
MOST_WAIT_MILLISECONDS = 100.0
_WORST = 12  # requests that hostile accounts send
# They would end the account, its node or the keys, and nothing would be left to measure.
_LEFT_OUT = {"suspend_account", "leave", "rotate_key"}
_USUAL = {"POTLUCK_HEARTBEAT_SECONDS": "20", "POTLUCK_LEASE_SECONDS": "90"}
_USUAL |= {"POTLUCK_SILENT_AFTER_SECONDS": "60", "POTLUCK_EXPIRE_POLL_SECONDS": "1"}
_USUAL |= {"POTLUCK_LEADER_SECONDS": "4", "POTLUCK_LEADER_RENEW_SECONDS": "1"}
_UNLIMITED = {**PATIENCE, **_USUAL, "POTLUCK_QUOTA_QUEUED_TASKS": "1000000"}


def search(
    directory: Path, url: str, options: argparse.Namespace, names: set[str] | None = None
) -> tuple[dict[str, Candidate], dict[str, str], dict[str, Any]]:
    """The worst request of each operation, in an equal part of the time, and what they name."""
    rng = random.Random(options.seed)
    with ServerProcess(directory, 0, POTLUCK_DATABASE_URL=url, **_UNLIMITED) as server:
        document = server.client().get("/schema/openapi.json")
        world = LargePool(server, options.large_nodes)
        costs = CostSearch(world, document, LoopMeter(server.process.pid), rng)
        measured_operations = [
            operation
            for operation in operations(document)
            if operation.name not in _LEFT_OUT and (names is None or operation.name in names)
        ]
        candidates = {}
        for operation in measured_operations:
            candidate = costs.worst(operation, options.seconds / len(measured_operations))
            if candidate is not None:
                candidates[operation.name] = candidate
    facts = {
        "requests": costs.requests,
        "operations": len(candidates),
        "failures": costs.failures[:20],
    }
    return candidates, world.person.objects, facts


def watch(
    directory: Path,
    url: str,
    worst: list[Candidate],
    objects: dict[str, str],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """On a new server with the usual limits; `objects` are those that the requests name."""
    with ServerProcess(directory, 0, POTLUCK_DATABASE_URL=url, **_USUAL) as server:
        LargePool(server, options.large_nodes)
        bystander = Person(server, "bystander")
        hostile = [Person(server, f"hostile {number}") for number in range(3)]
        requests = {
            (hostile_person.token, hostile_person.node_token()): [
                *(_about(hostile_person, candidate.request, objects) for candidate in worst),
                _registration(hostile_person),
            ]
            for hostile_person in hostile
        }
        meter = LoopMeter(server.process.pid)
        return measure_bystander(server.url, bystander, requests, options.watch_seconds, meter)


def _about(person: Person, request: CostlyRequest, objects: dict[str, str]) -> CostlyRequest:
    """The request with the person's own task, node and so on."""
    url, body = request.url, request.body
    for name, own_id in objects.items():
        url = url.replace(own_id, person.objects[name])
        body = (
            None if body is None else body.replace(own_id.encode(), person.objects[name].encode())
        )
    return replace(request, url=url, body=body)


def _registration(person: Person) -> CostlyRequest:
    body = json.dumps(large_offer(person)).encode()
    route = routes.REGISTER_NODE
    headers = {"Content-Type": "application/json"}
    return CostlyRequest("register_node", route.method, route.path, body, headers, is_node=True)


def report(
    candidates: dict[str, Candidate], facts: dict[str, Any], waits: dict[str, Any], speed: float
) -> dict[str, Any]:
    slower = max(1.0, speed / USUAL_MILLISECONDS)
    rows = sorted(candidates.values(), key=lambda candidate: -candidate.cost.loop_milliseconds)
    return {
        "speed_milliseconds": round(speed, 1),
        "slower_than_usual": round(slower, 2),
        **facts,
        "over": [
            candidate.request.operation
            for candidate in rows
            if candidate.cost.loop_milliseconds > MOST_MILLISECONDS * slower
        ],
        "bystander": waits,
        "worst": [_row(row) for row in rows],
    }


def _row(candidate: Candidate) -> dict[str, Any]:
    request, cost = candidate.request, candidate.cost
    size = len(request.body or b"") + len(request.url)
    return {
        "operation": request.operation,
        "status": cost.status,
        "loop_milliseconds": cost.loop_milliseconds,
        "answer_milliseconds": cost.answer_milliseconds,
        "all_threads_milliseconds": cost.all_milliseconds,
        "bytes": size,
        "microseconds_per_kilobyte": round(1000 * cost.loop_milliseconds / (size / 1000), 1),
        "request": f"{request.method} {request.url[:80]} {(request.body or b'')[:120]!r}",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="for the search")
    parser.add_argument("--watch-seconds", type=float, default=120, help="for the bystander")
    parser.add_argument("--large-nodes", type=int, default=20, help="of 64 devices each")
    parser.add_argument("--only", nargs="*", help="names of operations")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    speed = speed_milliseconds()
    waits: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="potluck-fuzz-cost-") as name,
        embedded_databases() as databases,
    ):
        directory = Path(name)
        with databases.fresh() as url:
            names = set(options.only) if options.only else None
            candidates, objects, facts = search(directory / "search", url, options, names)
        if options.watch_seconds:
            worst = sorted(
                candidates.values(), key=lambda candidate: -candidate.cost.all_milliseconds
            )[:_WORST]
            with databases.fresh() as url:
                waits = watch(directory / "watch", url, worst, objects, options)
    summary = report(candidates, {"seed": options.seed, **facts}, waits, speed)
    print(json.dumps(summary, indent=2))
    return 1 if summary["over"] or summary["failures"] or _is_late(waits, summary) else 0


def _is_late(waits: dict[str, Any], summary: dict[str, Any]) -> bool:
    """By the processor time, since other programs on the machine delay the answers too."""
    limit = MOST_WAIT_MILLISECONDS * summary["slower_than_usual"]
    return bool(waits) and waits["attacked"]["p99_loop_milliseconds"] > limit


if __name__ == "__main__":
    sys.exit(main())
