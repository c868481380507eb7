"""Searches for the most expensive request of an operation: grows what was expensive before."""

import random
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import urllib3
from msgspec import Struct

from potluck.model.account import Scope
from tests.fuzz.cost.bodies import MOST_BYTES, BodyMaker, encode, enlarge
from tests.fuzz.cost.hostile_bodies import hostile_bodies
from tests.fuzz.cost.large_pool import LargePool
from tests.fuzz.cost.meter import LoopMeter
from tests.security.bodies import BODIES, MESSAGEPACK, OCTETS, content_type
from tests.security.permission_matrix import QUERIES, Operation

_SIZES = (8, 64, 1_000, 20_000)
_KEPT = 4
_CONFIRMATIONS = 3
_LONG = "x" * 6_000
_HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"If-None-Match": ",".join(['"a"'] * 3_000)},
    {"Accept": ",".join(f"text/x{n};q=0.{n % 10}" for n in range(700))},
    {"Range": "bytes=" + ",".join(f"{n}-{n}" for n in range(1_500))},
    {"Last-Event-ID": "9" * 5_000},
    {"Authorization": "Bearer " + "a." * 2_000},
)


class CostlyRequest(Struct, frozen=True):
    operation: str
    method: str
    url: str
    body: bytes | None
    headers: dict[str, str]
    is_node: bool  # sent with a node key


class Cost(Struct, frozen=True):
    """Processor time of the event loop: until the answer, and with what the request left to do."""

    answer_milliseconds: float
    loop_milliseconds: float
    all_milliseconds: float  # of all threads
    status: int


class Candidate(Struct):
    value: Any
    request: CostlyRequest
    cost: Cost


class CostSearch:
    def __init__(
        self, world: LargePool, document: dict[str, Any], meter: LoopMeter, rng: random.Random
    ) -> None:
        self._world = world
        self._document = document
        self._meter = meter
        self._chance = rng
        self._maker = BodyMaker(document, rng)
        self._http = urllib3.PoolManager(retries=False, timeout=60, maxsize=2)
        self._session, self._node = world.tokens()
        meter.wait_until_quiet()
        self.requests = 0
        self.failures: list[str] = []

    def worst(self, operation: Operation, seconds: float) -> Candidate | None:
        """Of all that were tried in this time; confirmed, so that it is no accident."""
        end = time.monotonic() + seconds
        best: list[Candidate] = []
        for value, request in self._seeds(operation):
            best = self._keep(best, value, request)
        while operation.has_body and operation.name not in OCTETS and time.monotonic() < end:
            value = enlarge(self._chance.choice(best).value, self._chance)
            larger = self._with_body(operation, value)
            if larger is not None:
                best = self._keep(best, value, larger)
        for candidate in best:
            costs = [candidate.cost, *(self.send(candidate.request) for _ in range(_CONFIRMATIONS))]
            candidate.cost = min(costs, key=lambda cost: cost.loop_milliseconds)
        return max(best, key=_loop_milliseconds, default=None)

    def _keep(self, best: list[Candidate], value: Any, request: CostlyRequest) -> list[Candidate]:
        cost = self.send(request)
        return sorted([*best, Candidate(value, request, cost)], key=_loop_milliseconds)[-_KEPT:]

    def _seeds(self, operation: Operation) -> Iterator[tuple[Any, CostlyRequest]]:
        if not operation.has_body:
            yield from ((None, query) for query in self._without_body(operation))
            return
        for value in self._values(operation):
            request = self._with_body(operation, value)
            if request is not None:
                yield value, request

    def _values(self, operation: Operation) -> Iterator[Any]:
        person = self._world.person
        if operation.name in OCTETS:
            yield bytes(MOST_BYTES)
            return
        yield _plain(BODIES[operation.name](person), operation.name in MESSAGEPACK)
        yield from hostile_bodies(operation.name, person, self._world.lease)
        operation_document = self._document["paths"][operation.path][operation.method.lower()]
        (content, *_) = operation_document["requestBody"]["content"].values()
        for size in _SIZES:
            yield self._maker.make(content["schema"], size)
        yield {"matching regex '" * 60_000: 1}
        yield {f"k{number}": number for number in range(60_000)}

    def _with_body(self, operation: Operation, value: Any) -> CostlyRequest | None:
        try:
            body = encode(value, operation.name in MESSAGEPACK)
        except (TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
            return None
        if body is None:
            return None
        headers = {"Content-Type": content_type(operation.name)}
        if operation.name in ("submit_task", "submit_tasks") and self._chance.random() < 0.3:
            headers["Idempotency-Key"] = f"key {self._chance.random()}"
        return self._request(operation, QUERIES.get(operation.name, ""), body, headers)

    def _without_body(self, operation: Operation) -> Iterator[CostlyRequest]:
        operation_document = self._document["paths"][operation.path][operation.method.lower()]
        parameters = [
            parameter
            for parameter in operation_document.get("parameters", [])
            if parameter.get("in") == "query"
        ]
        names = [parameter["name"] for parameter in parameters]
        maxima = {
            parameter["name"]: parameter["schema"].get(
                "maximum", parameter["schema"].get("default", 1)
            )
            for parameter in parameters
            if "maximum" in parameter.get("schema", {})
        }
        largest = "&".join(f"{name}={value}" for name, value in maxima.items())
        models = "%7C".join(f"a%2A{n}" for n in range(8))
        queries = ["", f"?{largest}", f"?{largest}&model={models}"]
        queries += [f"?{name}={_LONG}" for name in names]
        queries += ["?" + "&".join(f"{name}=x{n}" for n in range(600)) for name in names[:3]]
        queries += ["?" + "&".join(f"n{n}=1" for n in range(700))]
        for query in queries:
            yield self._request(operation, query, None, {})
        for headers in _HEADERS[1:]:
            yield self._request(operation, queries[0], None, headers)

    def _request(
        self, operation: Operation, query: str, body: bytes | None, headers: dict[str, str]
    ) -> CostlyRequest:
        own_id = self._world.person.objects.get(str(operation.about), "none")
        path = operation.path if operation.about is None else operation.url(own_id)
        is_node = Scope.NODE in operation.scopes
        return CostlyRequest(operation.name, operation.method, path + query, body, headers, is_node)

    def send(self, request: CostlyRequest) -> Cost:
        """One request alone; renews the tokens if the last one ended them."""
        meter, headers = self._meter, dict(request.headers)
        if not request.headers.get("Authorization"):
            headers["Authorization"] = f"Bearer {self._node if request.is_node else self._session}"
        before, all_before = meter.seconds(), meter.all_seconds()
        status = self._status(request, headers)
        answer_seconds = meter.seconds()
        meter.wait_until_quiet()
        after, all_after = meter.seconds(), meter.all_seconds()
        if status in (401, 403):
            self._session, self._node = self._world.tokens()
            meter.wait_until_quiet()
        if status >= 500 or status == 0:
            self.failures.append(f"{status}: {request.method} {request.url[:200]}")
        self.requests += 1
        answer_time, loop, all_time = (
            round(1000 * span, 2)
            for span in (answer_seconds - before, after - before, all_after - all_before)
        )
        return Cost(answer_time, loop, all_time, status)

    def _status(self, request: CostlyRequest, headers: dict[str, str]) -> int:
        try:
            response = self._http.request(
                request.method,
                self._world.server.url + request.url,
                body=request.body,
                headers=headers,
                preload_content=False,
            )
        except urllib3.exceptions.HTTPError:
            return 0
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            response.close()
        else:
            response.drain_conn()
            response.release_conn()
        return response.status


def _plain(value: Any, packed: bool) -> Any:
    return value if packed else msgspec.to_builtins(value)


def _loop_milliseconds(candidate: Candidate) -> float:
    return candidate.cost.loop_milliseconds
