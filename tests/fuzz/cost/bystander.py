"""How long a bystander waits while hostile accounts do their worst, and while nobody does.

In turns, because other programs on the machine delay both. For the same reason, how much processor
time the server's event loop used meanwhile is measured too: on a quiet machine, that is the wait.
"""

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import urllib3

from potluck.wire import routes
from tests.fuzz.cost.meter import LoopMeter
from tests.fuzz.cost.search import CostlyRequest
from tests.security.people import Person

_EVERY_SECONDS = 0.05
_LONGEST_SECONDS = 30


_TURNS = 4


class _Wait(NamedTuple):
    """For one answer: the time, and the processor time that the event loop used meanwhile."""

    seconds: float
    loop: float


def measure_bystander(
    url: str,
    bystander: Person,
    hostile: Mapping[tuple[str, str], Sequence[CostlyRequest]],
    seconds: float,
    meter: LoopMeter,
) -> dict[str, Any]:
    """`hostile` has the tokens of a session and of a node key of each account, and its requests."""
    alone: list[_Wait] = []
    attacked: list[_Wait] = []
    sent = 0
    for _ in range(_TURNS):
        alone += _ask_again_and_again(url, bystander.token, seconds / _TURNS, meter)
        with _attackers(url, hostile, seconds / _TURNS) as counts:
            attacked += _ask_again_and_again(url, bystander.token, seconds / _TURNS, meter)
        sent += sum(counts)
    waits = {"alone": _waits(alone), "attacked": _waits(attacked)}
    quiet, loaded = (wait["p99_milliseconds"] for wait in waits.values())
    return {
        "seconds": seconds,
        "turns": _TURNS,
        "hostile_accounts": len(hostile),
        "hostile_requests": sent,
        **waits,
        "p99_ratio": round(loaded / max(quiet, 0.1), 1),
    }


@contextmanager
def _attackers(
    url: str, hostile: Mapping[tuple[str, str], Sequence[CostlyRequest]], seconds: float
) -> Iterator[list[int]]:
    """One process for each account; the list has what they sent, after the block."""
    context = multiprocessing.get_context("spawn")
    counts = context.Queue()
    attackers = [
        context.Process(target=_attack, args=(url, tokens, list(requests), seconds, counts))
        for tokens, requests in hostile.items()
    ]
    for attacker in attackers:
        attacker.start()
    ready = [counts.get(timeout=60) for _ in attackers]  # 0 of each: it has started
    yield ready
    for attacker in attackers:
        attacker.join()
    ready[:] = [counts.get(timeout=10) for _ in attackers]


def _waits(waits: list[_Wait]) -> dict[str, Any]:
    seconds, loop = sorted(wait.seconds for wait in waits), sorted(wait.loop for wait in waits)
    return {
        "requests": len(waits),
        "median_milliseconds": _part(seconds, 0.5),
        "p99_milliseconds": _part(seconds, 0.99),
        "worst_milliseconds": _part(seconds, 1.0),
        "p99_loop_milliseconds": _part(loop, 0.99),
        "worst_loop_milliseconds": _part(loop, 1.0),
    }


def _ask_again_and_again(url: str, token: str, seconds: float, meter: LoopMeter) -> list[_Wait]:
    """At fixed moments, as many users would: a slow answer does not delay the next question."""
    http = urllib3.PoolManager(retries=False, timeout=_LONGEST_SECONDS, maxsize=1)
    headers = {"Authorization": f"Bearer {token}"}
    end, waits = time.monotonic() + seconds, []
    while time.monotonic() < end:
        used, started = meter.seconds(), time.monotonic()
        response = http.request("GET", url + routes.ME.path, headers=headers)
        taken_seconds = time.monotonic() - started
        assert response.status == 200, response.data[:300]
        waits.append(_Wait(taken_seconds, meter.seconds() - used))
        time.sleep(max(0.0, _EVERY_SECONDS - taken_seconds))
    return waits


def _attack(
    url: str, tokens: tuple[str, str], requests: list[CostlyRequest], seconds: float, counts: Any
) -> None:
    """One after the other, without a pause; the clients leave the processor to the server."""
    os.nice(10)
    http = urllib3.PoolManager(retries=False, timeout=_LONGEST_SECONDS, maxsize=1)
    counts.put(0)
    end, sent = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for request in requests:
            headers = {**request.headers, "Authorization": f"Bearer {tokens[request.is_node]}"}
            try:
                response = http.request(
                    request.method,
                    url + request.url,
                    body=request.body,
                    headers=headers,
                    preload_content=False,
                )
                response.close()
            except urllib3.exceptions.HTTPError:
                pass
            sent += 1
            if time.monotonic() >= end:
                break
    counts.put(sent)


def _part(times: list[float], part: float) -> float:
    return round(1000 * times[min(len(times) - 1, int(part * len(times)))], 1)
