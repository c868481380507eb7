"""Several instances on one object store: whoever is asked has every part, blob and log."""

import asyncio
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import urllib3
from aiohttp.test_utils import TestServer

from potluck.wire.files import PART_BYTES
from tests.blobs.s3_server import ACCESS_KEY, BUCKET, S3Server
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess


@pytest.fixture
def s3() -> Iterator[tuple[S3Server, dict[str, str]]]:
    """In a thread of its own, with the variables that lead there."""
    store, loop = S3Server(), asyncio.new_event_loop()
    running = TestServer(store.app())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(running.start_server(), loop).result(30)
        yield (
            store,
            {
                "POTLUCK_BLOBS_URL": f"s3://{BUCKET}/potluck",
                "AWS_ENDPOINT": str(running.make_url("")).rstrip("/"),
                "AWS_ALLOW_HTTP": "true",
                "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_REGION": "nowhere",
            },
        )
        asyncio.run_coroutine_threadsafe(running.close(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def test_every_instance_has_all_of_it(
    tmp_path: Path, database_url: str, redis_url: str, s3: tuple[S3Server, dict[str, str]]
) -> None:
    store, variables = s3
    shared = {"POTLUCK_DATABASE_URL": database_url, "POTLUCK_REDIS_URL": redis_url, **variables}
    data = os.urandom(PART_BYTES + 1)
    blob = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    with ExitStack() as stack:
        first_server = ServerProcess(tmp_path / "one", 0, **shared)
        stack.enter_context(first_server)
        # This one lets its clients read from the store itself.
        two = ServerProcess(tmp_path / "two", 0, POTLUCK_PRESIGN_SECONDS="60", **shared)
        stack.enter_context(two)
        upload_id = first_server.client().post("/v1/uploads", {"blob": blob})["upload_id"]
        parts = [(first_server, data[:PART_BYTES]), (two, data[PART_BYTES:])]
        for number, (server, part) in enumerate(parts):
            path = f"/v1/uploads/{upload_id}/parts/{number}"
            kind = {"Content_Type": "application/octet-stream"}
            assert (
                server.client().call("PUT", path, part, **kind).json()["parts_done"] == number + 1
            )
        assert (
            first_server.client().call("POST", f"/v1/uploads/{upload_id}/finish").json()["complete"]
        )
        path = f"/v1/blobs/{blob['sha256']}"
        assert first_server.client().call("GET", path).data == data
        sent_on = urllib3.request(
            "GET", two.url + path, headers={"Authorization": f"Bearer {two.token}"}, redirect=False
        )
        assert sent_on.status == 307
        assert urllib3.request("GET", sent_on.headers["location"]).data == data

        stack.enter_context(ProviderProcess(tmp_path / "provider", two, **FAST_PROVIDER))
        task_id = two.client().submit("print('kept where all can read it')")
        assert first_server.client().finished(task_id)["state"] == "succeeded"
        assert "kept where all can read it" in first_server.client().log(task_id)
        assert first_server.stop() == 0, "and it ends in order"
        assert two.stop() == 0
    assert not [key for key in store.objects if "/uploads/" in key], "no part is left"
