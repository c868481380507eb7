"""A node on the wire that answers as a test likes: well, badly, or to do harm.

It registers, leases and reports as a provider does, in a thread, and runs nothing in a sandbox:
what a function gives is what `answers` says it is.
"""

import pickle
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from potluck.model.blob import Value
from potluck.model.ids import NodeId
from potluck.model.lease import Lease
from potluck.model.task import EndReason
from potluck.model.task_spec import FunctionSpec
from potluck.wire import item_file, plain_values, routes
from potluck.wire.codec import encode_json, encode_packed
from potluck.wire.provider import (
    AcquireLeases,
    Finished,
    Grant,
    ItemOutcome,
    ItemsDone,
    LeasesGranted,
    LogChunk,
    Report,
    Reports,
    ReturnedItems,
    Started,
)
from tests.processes import ServerProcess
from tests.wallets import Wallet

GIB = 2**30
# What it answers to a grant, between that it has started and nothing more.
Answers = Callable[[Grant, Lease], list[Report]]


def gives(data: bytes) -> Answers:
    """Of each call, whether it is a task of its own or an item of a stream."""

    def answer(grant: Grant, lease: Lease) -> list[Report]:
        if not grant.items:
            return [Finished(lease, EndReason.COMPLETED, 0, value=Value(data))]
        return gives_items(lambda _, start, end: item_file.pack([data] * (end - start)))(
            grant, lease
        )

    return answer


def raises(data: bytes) -> Answers:
    def answer(grant: Grant, lease: Lease) -> list[Report]:
        if not grant.items:
            return [Finished(lease, EndReason.EXCEPTION, value=Value(data))]
        return raises_items(data)(grant, lease)

    return answer


def gives_items(pack: Callable[[Grant, int, int], bytes]) -> Answers:
    """Of an array: what `pack` says for each run of items."""

    def answer(grant: Grant, lease: Lease) -> list[Report]:
        returned = tuple(
            ReturnedItems(item.start, item.end, 0.001, Value(pack(grant, item.start, item.end)))
            for item in grant.items
        )
        return [ItemsDone(lease, returned=returned), Finished(lease, EndReason.COMPLETED, 0)]

    return answer


def runs() -> Answers:
    """Calls the function here and now, as an interpreter on a node does it."""

    def answer(grant: Grant, lease: Lease) -> list[Report]:
        spec = grant.spec
        assert isinstance(spec, FunctionSpec)
        function = pickle.loads(spec.code.data)
        if not grant.items:
            return [_called(function, pickle.loads(spec.inputs.data), lease)]
        inputs = item_file.unpack(spec.inputs.data, 100_000)
        returned, outcomes = [], []
        for item in range(grant.items[0].start, grant.items[-1].end):
            finish = _called(function, pickle.loads(inputs[item]), lease)
            if finish.reason is EndReason.COMPLETED and finish.value is not None:
                packed = Value(item_file.pack([finish.value.data]))
                returned.append(ReturnedItems(item, item + 1, 0.001, packed))
            else:
                data = b"" if finish.value is None else finish.value.data
                outcomes.append(ItemOutcome(item, finish.reason, 0.001, error=data))
        items_done = ItemsDone(lease, tuple(outcomes), returned=tuple(returned))
        return [items_done, Finished(lease, EndReason.COMPLETED, 0)]

    return answer


def _called(function: Callable[..., object], call_input: Any, lease: Lease) -> Finished:
    arguments, keywords = call_input if isinstance(call_input, list) else (call_input, {})
    try:
        value = function(*arguments, **keywords)
    except Exception as error:  # noqa: BLE001 - as an interpreter tells it
        error_value = {"type": type(error).__name__, "message": str(error), "traceback": ""}
        return Finished(lease, EndReason.EXCEPTION, value=Value(plain_values.encode(error_value)))
    return Finished(lease, EndReason.COMPLETED, 0, value=Value(plain_values.encode(value)))


def raises_items(error: bytes) -> Answers:
    return _ends_items(EndReason.EXCEPTION, error=error)


def fails_items(reason: EndReason, detail: str, last_lines: str = "") -> Answers:
    """Nothing is raised: it ends at one of its walls."""
    return _ends_items(reason, detail=detail, last_lines=last_lines)


def _ends_items(reason: EndReason, **fields: Any) -> Answers:
    def answer(grant: Grant, lease: Lease) -> list[Report]:
        outcomes = tuple(
            ItemOutcome(item, reason, 0.001, **fields)
            for item_range in grant.items
            for item in range(item_range.start, item_range.end)
        )
        return [ItemsDone(lease, outcomes), Finished(lease, EndReason.COMPLETED, 0)]

    return answer


class FakeNode:
    def __init__(self, server: ServerProcess, name: str, **fields: Any) -> None:
        self.answers: Answers = gives(b"\xc0")
        self.specs: list[FunctionSpec] = []
        self.accepts_refusals = False  # once a task may have been called off meanwhile
        self.tells_of_start = False  # before it has an answer
        self._api = server.node(name)
        self._is_over = threading.Event()
        offer = {
            "description": _description(name, **fields),
            "statements": [Wallet(name).state(server.url, name)],
        }
        registration = self._api.post(routes.REGISTER_NODE.path, offer)
        assert "node_id" in registration, registration
        self.node_id = NodeId(registration["node_id"])
        self._thread = threading.Thread(target=self._work)

    @contextmanager
    def working(self) -> Iterator["FakeNode"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            self._thread.join()
            self._api.call("POST", routes.LEAVE.url(node_id=self.node_id), b"{}")
            self._api.close()

    def _work(self) -> None:
        while not self._is_over.is_set():
            poll_response = self._call(routes.ACQUIRE_LEASES, AcquireLeases(wait_seconds=0.5))
            for grant in msgspec.json.decode(poll_response, type=LeasesGranted).grants:
                assert isinstance(grant.spec, FunctionSpec)
                self.specs.append(grant.spec)
                lease = Lease(grant.attempt_id, grant.token)
                if self.tells_of_start:
                    self._report(Started(lease))
                    self._report(*self.answers(grant, lease))
                else:
                    self._report(Started(lease), *self.answers(grant, lease))

    def add_files(self, packed: bytes) -> None:
        """What a task leaves, before its end is told."""
        path = routes.ADD_FILES.url(node_id=self.node_id)
        response = self._api.call("POST", path, packed, **{"Content-Type": "application/msgpack"})
        assert response.status < 300, response.data

    def append_log(self, chunk: LogChunk) -> None:
        """What a task writes, before its end is told."""
        path = routes.APPEND_LOG.url(node_id=self.node_id)
        packed = {"Content-Type": "application/msgpack"}
        response = self._api.call("POST", path, encode_packed(chunk), **packed)
        assert response.status < 300, response.data

    def _report(self, *reports: Report) -> None:
        report_response = msgspec.json.decode(self._call(routes.REPORT, Reports(reports)))
        is_taken = all(answer["accepted"] for answer in report_response["answers"])
        assert is_taken or self.accepts_refusals, report_response

    def _call(self, route: routes.Route, body: msgspec.Struct) -> bytes:
        path = route.url(node_id=self.node_id)
        response = self._api.call(route.method, path, encode_json(body))
        assert response.status < 300, response.data
        return response.data


def _description(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "platform": "linux",
        "python_version": platform.python_version(),
        "potluck_version": "0",
        "cores": 4,
        "memory_bytes": 16 * GIB,
        "disk_bytes": 64 * GIB,
        "sandbox": {
            "driver": "bwrap",
            "memory": "watchdog",
            "processes": "watchdog",
            "kinds": ["script", "function", "command"],
        },
        "devices": [
            {"kind": "cpu", "uuid": name, "vendor": "v", "model": "m", "memory_bytes": GIB}
        ],
        **fields,
    }
