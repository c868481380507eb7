"""Blobs in an S3 server of another maker, with the variables of docs/scaling.md."""

import hashlib
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import urllib3

from potluck.blobs.object_store import ObjectStoreBlobs
from potluck.local.child_process import end_with_parent
from tests.processes import await_true, free_port

_MOTO = Path(sys.executable).parent.parent / "release" / "bin" / "moto_server"
_SIGNED = "AWS4-HMAC-SHA256 Credential=potluck/20260101/us-east-1/s3/aws4_request, Signature=x"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    port = free_port()
    with (tmp_path / "moto.log").open("wb") as log:
        process = subprocess.Popen(
            [_MOTO, "-H", "127.0.0.1", "-p", str(port)],
            stdout=log,
            stderr=log,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )

    def make_bucket() -> bool:
        assert process.poll() is None, (tmp_path / "moto.log").read_text()
        with suppress(urllib3.exceptions.HTTPError):
            url, headers = f"http://127.0.0.1:{port}/pool", {"Authorization": _SIGNED}
            return urllib3.request("PUT", url, headers=headers, retries=False).status == 200
        return False

    try:
        await_true(make_bucket, "the bucket is made", 60)
        for name, value in {
            "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "potluck",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        yield "s3://pool/folder"
    finally:
        process.kill()
        process.wait()


async def in_pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]


async def test_parts_are_put_together_read_signed_and_deleted(bucket: str, tmp_path: Path) -> None:
    data, store = os.urandom(9 * 2**20), ObjectStoreBlobs(bucket, tmp_path / "spool")
    await store.check()
    keys = [f"uploads/u/{number}" for number in range(3)]
    for number, key in enumerate(keys):
        await store.put_stream(key, in_pieces(data[3 * 2**20 * number :][: 3 * 2**20]))
    assembled = await store.assemble(keys, "objects/a")
    assert (assembled.sha256, assembled.size_bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    part = b"".join([piece async for piece in store.stream("objects/a", 5, 100)])
    assert part == data[5:105]
    address = await store.sign("objects/a", 60)
    assert address is not None and urllib.request.urlopen(address).read() == data
    await store.delete(keys)
    assert await store.list("") == ["objects/a"]
    store.close()
