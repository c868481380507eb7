"""A server that says exactly what a test wants, over real sockets, one answer after the other.

It is for what a healthy server never does: garbage, cut streams, refusals. A `Scene` is what it
answers to the next request for a path, with its query or without; the last scene is repeated.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from potluck.model.error import PotluckError
from potluck.model.ids import AttemptId, TaskId
from potluck.model.task import Limits, Requirements, TaskState
from potluck.store.new_ids import new_task_id
from potluck.wire.codec import encode_json
from potluck.wire.consumer import FollowedLog, FollowedState, LogPage, LogPiece, TaskView
from potluck.wire.problem import to_problem


class Scene(msgspec.Struct, frozen=True):
    """One answer. Chunks are sent one by one; `cut` ends the connection without an ending."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}
    chunks: Iterable[bytes] | None = None
    cut: bool = False


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class FakeServer:
    """Plays scenes and keeps the requests."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self._scenes: dict[str, list[Scene]] = {}
        self._always = Scene(404, b"no such scene")
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake._answer(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._http = _QuietServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def plays(self, path: str, *scenes: Scene) -> None:
        self._scenes[path] = list(scenes)

    def answers_all(self, scene: Scene) -> None:
        """To whatever is asked from now on, and nothing that was asked before is remembered."""
        self._scenes.clear()
        self._always = scene
        self.requests.clear()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        received = Request(
            handler.command, handler.path, dict(handler.headers), handler.rfile.read(length)
        )
        self.requests.append(received)
        scene = self._next_scene(handler.path)
        _send(handler, scene)
        if scene.cut:
            handler.close_connection = True
            handler.connection.close()

    def _next_scene(self, path: str) -> Scene:
        scenes = self._scenes.get(path) or self._scenes.get(path.split("?")[0])
        if not scenes:
            return self._always
        return scenes.pop(0) if len(scenes) > 1 else scenes[0]

    @contextmanager
    def running(self) -> Iterator["FakeServer"]:
        thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()


class _QuietServer(ThreadingHTTPServer):
    """Clients that go away in the middle are what these tests are about."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def _send(handler: BaseHTTPRequestHandler, scene: Scene) -> None:
    if scene.status == 0:
        return
    handler.send_response(scene.status)
    for name, value in scene.headers.items():
        handler.send_header(name, value)
    if scene.chunks is None:
        handler.send_header("Content-Length", str(len(scene.body)))
        handler.end_headers()
        handler.wfile.write(scene.body)
        return
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for chunk in scene.chunks:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        handler.wfile.flush()
    if not scene.cut:
        handler.wfile.write(b"0\r\n\r\n")


def hang_up() -> Scene:
    """Takes the request and closes the connection without a word."""
    return Scene(status=0, cut=True)


def says(value: object, status: int = 200) -> Scene:
    return Scene(status, encode_json(value), {"Content-Type": "application/json"})


def refuses(error: PotluckError, **headers: str) -> Scene:
    kind = {"Content-Type": "application/problem+json"}
    return Scene(error.status, encode_json(to_problem(error)), {**kind, **headers})


def streams(*chunks: bytes, cut: bool = False) -> Scene:
    return Scene(headers={"Content-Type": "text/event-stream"}, chunks=chunks, cut=cut)


def a_task(state: TaskState = TaskState.QUEUED, **changes: Any) -> TaskView:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    task = TaskView(
        id=TaskId(new_task_id()),
        name="hello",
        kind="script",
        state=state,
        priority=0,
        created_at=now,
        updated_at=now,
        requirements=Requirements(),
        limits=Limits(),
        version=1,
        phase=state.value,
    )
    return msgspec.structs.replace(task, **changes)


def state_event(identity: int, task: TaskView) -> bytes:
    return _event(identity, "state", encode_json(FollowedState(task)))


def log_event(identity: int, offset: int, *pieces: tuple[str, bytes]) -> bytes:
    page = LogPage(
        attempt_id=AttemptId("attempt_1"),
        offset=offset,
        next_offset=offset + len(pieces),
        pieces=[LogPiece(stream, data) for stream, data in pieces],
        complete=False,
    )
    return _event(identity, "log", encode_json(FollowedLog(page)))


def _event(identity: int, kind: str, data: bytes) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (identity, kind.encode(), data)
