"""Requests that schemathesis and hypothesis make from the server's document, right and wrong."""

import itertools
import math
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from tests.fuzz.callers import FuzzCaller
from tests.fuzz.counts import Counts
from tests.fuzz.fuzz_client import FuzzClient, bearer
from tests.security.bodies import OCTETS
from tests.security.permission_matrix import Operation, operations

_MODES = (GenerationMode.NEGATIVE, GenerationMode.POSITIVE)
_JSON, _PACKED = "application/json", "application/msgpack"
_FEWEST_AT_ONCE = 2
_PACKED_SHARE = 0.3  # of the bodies, in MessagePack instead of JSON


def try_by_schema(
    document: dict[str, Any],
    callers: list[FuzzCaller],
    asker: FuzzClient,
    counts: Counts,
    request_count: int,
) -> None:
    """At least this many: rounds over every operation, the wrong ones first, until they are there.

    A round has all of one mode, at most the half of what is wanted.
    """
    rng = random.Random(counts.seed)
    known_operations = {operation.name: operation for operation in operations(document)}
    definitions = [
        _described(operation_definition)
        for operation_definition in _schema(document).get_all_operations()
    ]
    enough = counts.requests + request_count
    for mode in itertools.cycle(_MODES):
        missing = min(enough - counts.requests, request_count / len(_MODES))
        if missing <= 0:
            return
        cases = max(_FEWEST_AT_ONCE, math.ceil(missing / len(definitions) / len(callers)))
        for definition in definitions:
            operation = known_operations[definition.definition.raw["operationId"]]
            send = _sender(operation, callers, asker, rng)
            try:
                strategy = definition.as_strategy(generation_mode=mode)
                _run(strategy, send, cases, rng.getrandbits(32))
            except Unsatisfiable:  # open to everybody, and nothing can be said to it
                strategy = definition.as_strategy(generation_mode=GenerationMode.POSITIVE)
                _run(strategy, send, cases, rng.getrandbits(32))


def _schema(document: dict[str, Any]) -> Any:
    return schemathesis.openapi.from_dict(document)


def _described(result: Any) -> Any:
    """An operation of the document; raises what is wrong with the document otherwise."""
    return result.ok()


def _sender(
    operation: Operation, callers: list[FuzzCaller], asker: FuzzClient, rng: random.Random
) -> Callable[[Any], None]:
    """Every caller sends every case: making one costs more than sending it."""
    tokens = {caller.name: caller.token() for caller in callers}

    def send(case: Any) -> None:
        # Half of them about something that is there, or nothing behind a 404 is ever reached.
        is_about_own = operation.about is not None and rng.random() < 0.5
        for caller in callers:
            if is_about_own:
                case.path_parameters[operation.about] = caller.person.objects.get(
                    str(operation.about), "none"
                )
            request = case.as_transport_kwargs(base_url="http://127.0.0.1")
            url, body = _url_and_body(request)
            headers = {**_headers(request), **bearer(tokens[caller.name])}
            if body is not None:
                kind = "application/octet-stream" if operation.name in OCTETS else _JSON
                if kind == _JSON and rng.random() < _PACKED_SHARE:
                    kind, body = _PACKED, _pack(case.body)
                headers["Content-Type"] = kind
            asker.ask("schema", caller, operation, url, body, headers)

    return send


def _pack(value: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except (TypeError, OverflowError, UnicodeError, msgspec.MsgspecError):
        return repr(value).encode("utf-8", "replace")


def _url_and_body(request: dict[str, Any]) -> tuple[str, bytes | None]:
    """As the library that schemathesis stands on would send them."""
    prepared = requests.Request(
        request["method"],
        request["url"],
        params=request.get("params"),
        json=request.get("json"),
        data=request.get("data"),
    ).prepare()
    parts = urlsplit(prepared.url or "")
    query = f"?{parts.query}" if parts.query else ""
    body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
    assert body is None or isinstance(body, bytes)
    return f"{parts.path or '/'}{query}", body


def _headers(request: dict[str, Any]) -> dict[str, str]:
    """Those of the schema; what HTTP itself could not carry is left out."""
    kept_names = {"Idempotency-Key", "If-None-Match", "Last-Event-ID", "Potluck-Lease"}
    headers = {name: str(value) for name, value in request["headers"].items() if name in kept_names}
    return {
        name: value for name, value in headers.items() if value.isascii() and value.isprintable()
    }


def _run(strategy: Any, send: Callable[[Any], None], times: int, number: int) -> None:
    @seed(number)
    @settings(
        max_examples=times,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def ask(case: Any) -> None:
        send(case)

    ask()
