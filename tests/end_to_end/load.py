"""Load on a running server: clients submit tasks with files, and count the acknowledged ones."""

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.processes import Api, ServerProcess, await_true
from tests.wallets import Wallet

PRICE = {"POTLUCK_PROVIDER_PRICE_MICRO_PER_HOUR": "3600000"}
# Reads its file, writes to its log and leaves a file.
SOURCE = "data = open('data').read()\nprint(data[:10])\nopen('output/copy', 'w').write(data)\n"


class Load:
    """Each client is an account of its own, with credit."""

    def __init__(self, server: ServerProcess, clients: int, pause_seconds: float) -> None:
        self._server = server
        self._pause_seconds = pause_seconds
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.acknowledged: list[tuple[str, str]] = []  # token and task
        self.failed: list[str] = []
        self._tokens = [self._account(number) for number in range(clients)]
        self._threads = [
            threading.Thread(target=self._submit_on, args=(token,)) for token in self._tokens
        ]

    def _account(self, number: int) -> str:
        token = self._server.sign_in(Wallet(f"load {number}"))
        me = Api(self._server.url, token).get("/v1/me")
        grant = b'{"amount_micro": 1000000000}'
        path = f"/v1/accounts/{me['id']}/grants"
        assert self._server.client().call("POST", path, grant).status == 204
        return token

    def _submit_on(self, token: str) -> None:
        client = Api(self._server.url, token)
        try:
            while not self._stop.wait(self._pause_seconds):
                self._submit(client, token)
        finally:
            client.close()

    def _submit(self, client: Api, token: str) -> None:
        try:
            task_id = submit_with_file(client, os.urandom(2_000).hex().encode())
        except Exception as error:  # noqa: BLE001 - counted, and shown by the test
            if not self._stop.is_set():
                self.failed.append(repr(error))
            return
        with self._lock:
            self.acknowledged.append((token, task_id))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def count(self) -> int:
        return len(self.acknowledged)


@contextmanager
def under_load(
    server: ServerProcess, clients: int, first: int, pause_seconds: float = 0.0
) -> Iterator[Load]:
    """Once the first tasks are acknowledged. With pauses nodes can keep up with the clients."""
    load = Load(server, clients, pause_seconds)
    load.start()
    try:
        await_true(lambda: load.count() >= first or load.failed, "tasks are submitted")
        yield load
    finally:
        load.stop()


def submit_with_file(client: Api, data: bytes) -> str:
    blob = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    upload = client.post("/v1/uploads", {"blob": blob})
    path = f"/v1/uploads/{upload['upload_id']}"
    client.call("PUT", f"{path}/parts/0", data, Content_Type="application/octet-stream")
    finished_upload = client.post(f"{path}/finish", {})
    assert finished_upload.get("complete"), finished_upload
    spec: dict[str, Any] = {"kind": "script", "filename": "script.py", "source": SOURCE}
    spec["files"] = [{"path": "data", "blob": blob}]
    task = client.post("/v1/tasks", {"spec": spec, "limits": {"run_seconds": 60}})
    assert "id" in task, task
    task_id: str = task["id"]
    return task_id
