"""The hostile requests, to every operation: bodies, names in paths and queries, column names."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import asyncpg
import msgspec

from tests.fuzz.callers import FuzzCaller
from tests.fuzz.fuzz_client import FuzzClient, bearer, path_of
from tests.fuzz.hostile_variants import NAMES, Hostile, bodies, packed_bodies
from tests.security.bodies import BODIES, OCTETS
from tests.security.permission_matrix import Operation, operations

_COLUMNS = "SELECT DISTINCT column_name FROM information_schema.columns WHERE table_schema = $1"

# Between them they are let through to every operation.
_LET_THROUGH = {"admin", "node key"}
_MORE_NAMES = 30


def columns_of(database_url: str) -> list[str]:
    return asyncio.run(_columns(database_url))


async def _columns(database_url: str) -> list[str]:
    connection = await asyncpg.connect(database_url)
    try:
        return sorted(row[0] for row in await connection.fetch(_COLUMNS, "public"))
    finally:
        await connection.close()


def try_by_hand(
    document: dict[str, Any],
    callers: list[FuzzCaller],
    asker: FuzzClient,
    columns: list[str],
    share: float = 1.0,
    seed: int = 0,
) -> None:
    """All of them, or what chance takes: a share, and of the names in paths many more than that."""
    rng = random.Random(seed)
    for operation in operations(document):
        for caller in callers:
            token = caller.token()
            for hostile, url in _requests(document, operation, caller, columns):
                is_let_in = hostile.is_name and caller.name in _LET_THROUGH
                if rng.random() > (min(1, share * _MORE_NAMES) if is_let_in else share):
                    continue
                headers = {"Content-Type": "application/json", **hostile.headers, **bearer(token)}
                asker.ask(
                    "by hand",
                    caller,
                    operation,
                    url,
                    hostile.body if operation.has_body else None,
                    headers,
                    hostile.must_fail,
                )


def _requests(
    document: dict[str, Any], operation: Operation, caller: FuzzCaller, columns: list[str]
) -> Iterator[tuple[Hostile, str]]:
    own_path = path_of(operation, caller)
    right = BODIES[operation.name](caller.person) if operation.has_body else {}
    if operation.has_body and operation.name not in OCTETS:
        extra = sorted(set(columns) - _fields(document, operation))
        yield from ((hostile, own_path) for hostile in bodies(msgspec.to_builtins(right), extra))
        yield from ((hostile, own_path) for hostile in packed_bodies(right))
    body = msgspec.json.encode(right)
    for name in NAMES:
        if operation.about is not None:
            named_body = Hostile(f"named {name[:20]}", body, is_name=True)
            yield named_body, path_of(operation, caller, name)
        for query in (*_queries(document, operation), "unheard_of"):
            yield Hostile(f"{query} is {name[:20]}", body), f"{own_path}?{query}={name}"


def _fields(document: dict[str, Any], operation: Operation) -> set[str]:
    operation_document = document["paths"][operation.path][operation.method.lower()]
    (content,) = operation_document["requestBody"]["content"].values()
    name = content["schema"]["$ref"].rpartition("/")[2]
    return set(document["components"]["schemas"][name]["properties"])


def _queries(document: dict[str, Any], operation: Operation) -> list[str]:
    operation_document = document["paths"][operation.path][operation.method.lower()]
    return [
        parameter["name"]
        for parameter in operation_document.get("parameters", [])
        if parameter.get("in") == "query"
    ]
