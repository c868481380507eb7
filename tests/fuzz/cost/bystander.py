"""How long a bystander waits while hostile accounts do their worst, and while nobody does.

In turns, because other programs on the machine delay both.
"""

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import urllib3

from potluck.wire import routes
from tests.fuzz.cost.search import CostlyRequest
from tests.security.people import Person

_EVERY_SECONDS = 0.05
_LONGEST_SECONDS = 30


_TURNS = 4


def measure_bystander(
    url: str,
    bystander: Person,
    hostile: Mapping[tuple[str, str], Sequence[CostlyRequest]],
    seconds: float,
) -> dict[str, Any]:
    """`hostile` has the tokens of a session and of a node key of each account, and its requests."""
    alone: list[float] = []
    attacked: list[float] = []
    sent = 0
    for _ in range(_TURNS):
        alone += _ask_again_and_again(url, bystander.token, seconds / _TURNS)
        with _attackers(url, hostile, seconds / _TURNS) as counts:
            attacked += _ask_again_and_again(url, bystander.token, seconds / _TURNS)
        sent += sum(counts)
    waits = {"alone": _waits(alone), "attacked": _waits(attacked)}
    quiet, loaded = (each["p99_milliseconds"] for each in waits.values())
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


def _waits(times: list[float]) -> dict[str, Any]:
    ordered = sorted(times)
    return {
        "requests": len(ordered),
        "median_milliseconds": _part(ordered, 0.5),
        "p99_milliseconds": _part(ordered, 0.99),
        "worst_milliseconds": _part(ordered, 1.0),
    }


def _ask_again_and_again(url: str, token: str, seconds: float) -> list[float]:
    """At fixed moments, as many users would: a slow answer does not delay the next question."""
    http = urllib3.PoolManager(retries=False, timeout=_LONGEST_SECONDS, maxsize=1)
    headers = {"Authorization": f"Bearer {token}"}
    until, times = time.monotonic() + seconds, []
    while time.monotonic() < until:
        began = time.monotonic()
        answer = http.request("GET", url + routes.ME.path, headers=headers)
        took = time.monotonic() - began
        assert answer.status == 200, answer.data[:300]
        times.append(took)
        time.sleep(max(0.0, _EVERY_SECONDS - took))
    return times


def _attack(
    url: str, tokens: tuple[str, str], requests: list[CostlyRequest], seconds: float, counts: Any
) -> None:
    """One after the other, without a pause; the clients leave the processor to the server."""
    os.nice(10)
    http = urllib3.PoolManager(retries=False, timeout=_LONGEST_SECONDS, maxsize=1)
    counts.put(0)
    until, sent = time.monotonic() + seconds, 0
    while time.monotonic() < until:
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
            if time.monotonic() >= until:
                break
    counts.put(sent)


def _part(times: list[float], part: float) -> float:
    return round(1000 * times[min(len(times) - 1, int(part * len(times)))], 1)
