"""Uploads and blobs over HTTP: parts, ranges, headers, bounds, and memory that stays small."""

import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from potluck.wire.files import PART_BYTES
from tests.processes import Api, ServerProcess, await_true
from tests.server.api.openapi_document import operations
from tests.wallets import Wallet

OCTETS = {"Content_Type": "application/octet-stream"}


def named(data: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}


def put_part(api: Api, upload_id: str, number: int | str, data: bytes) -> Any:
    path = f"/v1/uploads/{upload_id}/parts/{number}"
    return api.call("PUT", path, data, **OCTETS)


def send(api: Api, data: bytes) -> str:
    upload = api.post("/v1/uploads", {"blob": named(data)})
    if upload["complete"]:
        return str(named(data)["sha256"])
    for number, start in enumerate(range(0, len(data), PART_BYTES)):
        response = put_part(api, upload["upload_id"], number, data[start : start + PART_BYTES])
        assert response.status == 200 and response.json()["parts_done"] == number + 1, response.data
    finish_response = api.call("POST", f"/v1/uploads/{upload['upload_id']}/finish")
    assert finish_response.status == 200 and finish_response.json()["complete"], (
        finish_response.data
    )
    return str(named(data)["sha256"])


def test_uploaded_bytes_can_be_downloaded(server: ServerProcess) -> None:
    api, data = server.client(), os.urandom(PART_BYTES + 5)
    response = api.call("GET", f"/v1/blobs/{send(api, data)}")
    assert (response.status, response.data) == (200, data)
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"] == "attachment"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-length"] == str(len(data))
    assert response.headers["etag"] == f'"{named(data)["sha256"]}"'
    assert api.post("/v1/uploads", {"blob": named(data)})["complete"]


def test_a_second_size_for_the_same_hash_is_a_conflict_of_the_document(
    server: ServerProcess,
) -> None:
    api, blob = server.client(), {"sha256": "5e" * 32, "size_bytes": 7}
    assert api.call("POST", "/v1/uploads", json.dumps({"blob": blob}).encode()).status == 201
    other = json.dumps({"blob": {**blob, "size_bytes": 8}}).encode()
    response = api.call("POST", "/v1/uploads", other)
    assert (response.status, response.json()["code"]) == (409, "conflict")
    assert "409" in operations()["begin_upload"]["responses"]


RANGES = [
    # (what is asked for, the status, the bytes)
    ("bytes=0-3", 206, b"0123"),
    ("bytes=7-", 206, b"789"),
    ("bytes=8-100", 206, b"89"),
    ("bytes=-3", 206, b"789"),
    ("bytes=-100", 206, b"0123456789"),
    ("bytes=0-1,3-4", 200, b"0123456789"),
    ("bytes=5-2", 200, b"0123456789"),
    ("lines=1-2", 200, b"0123456789"),
    ("bytes=-", 200, b"0123456789"),
    ("bytes=10-", 416, None),
    ("bytes=99999999999999999999999-", 416, None),
    ("bytes=-0", 416, None),
]


@pytest.mark.parametrize(("byte_range", "status", "data"), RANGES)
def test_a_range_of_a_file_can_be_requested(
    server: ServerProcess, byte_range: str, status: int, data: bytes | None
) -> None:
    api = server.client()
    response = api.call("GET", f"/v1/blobs/{send(api, b'0123456789')}", Range=byte_range)
    assert response.status == status
    if data is None:
        assert response.json()["code"] == "range_not_satisfiable"
    else:
        assert response.data == data
    if status == 206 and data is not None:
        start = b"0123456789".index(data)
        content_range = response.headers["content-range"]
        assert content_range == f"bytes {start}-{start + len(data) - 1}/10"


def test_a_range_of_something_else_is_answered_with_the_whole(server: ServerProcess) -> None:
    api = server.client()
    sha256 = send(api, b"0123456789")
    for etag, status in ((f'"{sha256}"', 206), ('"another"', 200)):
        response = api.call("GET", f"/v1/blobs/{sha256}", Range="bytes=2-", If_Range=etag)
        assert response.status == status


BAD = [
    # (what is wrong, method, path, body, headers, status, code)
    ("no hash", "GET", "/v1/blobs/x", None, {}, 404, "not_found"),
    ("upper case", "GET", f"/v1/blobs/{'A' * 64}", None, {}, 404, "not_found"),
    ("nobody's", "GET", f"/v1/blobs/{'a' * 64}", None, {}, 404, "not_found"),
    ("no upload", "PUT", "/v1/uploads/x/parts/0", b"x", OCTETS, 404, "not_found"),
    ("no number", "PUT", "/v1/uploads/x/parts/-1", b"x", OCTETS, 400, "invalid_input"),
    ("large number", "PUT", "/v1/uploads/x/parts/9999999", b"x", OCTETS, 400, "invalid_input"),
    ("no upload to end", "POST", "/v1/uploads/x/finish", None, {}, 404, "not_found"),
    (
        *("too large", "POST", "/v1/uploads"),
        json.dumps({"blob": {"sha256": "a" * 64, "size_bytes": 2**62}}).encode(),
        *({}, 400, "invalid_input"),
    ),
    (
        *("over the quota", "POST", "/v1/uploads"),
        json.dumps({"blob": {"sha256": "a" * 64, "size_bytes": 2**40}}).encode(),
        *({}, 403, "quota_exceeded"),
    ),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "code"),
    [row[1:] for row in BAD],
    ids=[row[0] for row in BAD],
)
def test_a_bad_request_gets_a_sentence(
    server: ServerProcess,
    method: str,
    path: str,
    body: bytes | None,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    response = server.client().call(method, path, body, **headers)
    assert (response.status, response.json()["code"]) == (status, code), response.data


def test_a_part_is_plain_bytes_and_no_larger_than_a_part(server: ServerProcess) -> None:
    api, data = server.client(), b"x" * (PART_BYTES + 1)
    upload_id = api.post("/v1/uploads", {"blob": named(data)})["upload_id"]
    assert put_part(api, upload_id, 0, data).status == 413
    as_json = api.call("PUT", f"/v1/uploads/{upload_id}/parts/0", b"{}")
    assert as_json.status == 415
    assert put_part(api, upload_id, 0, data[:-2]).status == 400
    assert put_part(api, upload_id, 1, data[-1:]).status == 409
    assert put_part(api, upload_id, 0, data[:-1]).json()["parts_done"] == 1


def test_objects_of_other_accounts_are_not_found(server: ServerProcess) -> None:
    api, bob = server.client(), server.client(server.sign_in(Wallet("bob")))
    sha256 = send(api, b"a secret")
    upload_id = api.post("/v1/uploads", {"blob": named(b"under way")})["upload_id"]
    assert bob.call("GET", f"/v1/blobs/{sha256}").status == 404
    assert put_part(bob, upload_id, 0, b"under way").status == 404
    assert bob.call("POST", f"/v1/uploads/{upload_id}/finish").status == 404
    assert not bob.post("/v1/uploads", {"blob": named(b"a secret")})["complete"]


def test_missing_bytes_are_reported_before_the_response_starts(server: ServerProcess) -> None:
    api = server.client()
    sha256 = send(api, b"to be lost")
    object_paths = [*(server.directory / "server" / "blobs" / "objects").rglob("upload_*")]
    (lost_path,) = [path for path in object_paths if path.read_bytes() == b"to be lost"]
    lost_path.unlink()
    response = api.call("GET", f"/v1/blobs/{sha256}")
    assert (response.status, "missing" in response.json()["detail"]) == (500, True)


def test_a_client_that_hangs_up_leaves_nothing(server: ServerProcess) -> None:
    api, data = server.client(), b"x" * 1_000_000
    upload_id = api.post("/v1/uploads", {"blob": named(data)})["upload_id"]
    with half_sent(server, upload_id, 0, data):
        pass
    assert put_part(api, upload_id, 0, data).json()["parts_done"] == 1


@pytest.mark.parametrize(
    "size_bytes",
    [
        pytest.param(64 * 2**20, id="64 MB"),
        pytest.param(2 * 2**30, id="2 GiB", marks=pytest.mark.long),
    ],
)
def test_an_upload_resumes_after_the_server_was_killed_in_little_memory(
    tmp_path: Path, size_bytes: int
) -> None:
    pattern = Pattern(size_bytes)
    blob = {"sha256": pattern.sha256, "size_bytes": size_bytes}
    parts = -(-size_bytes // PART_BYTES)
    with ServerProcess(tmp_path) as before:
        api = before.client()
        upload_id = api.post("/v1/uploads", {"blob": blob})["upload_id"]
        for number in range(parts // 2):
            assert put_part(api, upload_id, number, pattern.part(number)).status == 200
        with half_sent(before, upload_id, parts // 2, pattern.part(parts // 2)):
            before.kill()
    with ServerProcess(tmp_path) as after:
        api = after.client()
        resumed_upload = api.post("/v1/uploads", {"blob": blob})
        assert (resumed_upload["upload_id"], resumed_upload["parts_done"]) == (
            upload_id,
            parts // 2,
        )
        for number in range(parts // 2, parts):
            assert put_part(api, upload_id, number, pattern.part(number)).status == 200
        while not api.call("POST", f"/v1/uploads/{upload_id}/finish").json()["complete"]:
            time.sleep(0.1)
        assert downloaded(api, pattern.sha256) == pattern.sha256
        assert peak_bytes(after.process.pid) < 200 * 2**20
        leftovers = [*(tmp_path / "server" / "blobs" / "uploads").glob("*")]
        assert leftovers == [], "the parts are gone"


@contextmanager
def half_sent(server: ServerProcess, upload_id: str, number: int, part: bytes) -> Iterator[None]:
    """A client in the middle of a part, which hangs up with the block."""
    head = (
        f"PUT /v1/uploads/{upload_id}/parts/{number} HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {server.token}\r\nContent-Type: application/octet-stream\r\n"
        f"Content-Length: {len(part)}\r\n\r\n"
    )
    unfinished = server.directory / "server" / "blobs" / ".unfinished"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + part[: len(part) // 2])
        await_true(lambda: [*unfinished.iterdir()], "the server writes it down")
        yield


class Pattern:
    """A large file that is never in memory as a whole: each part is its number, repeated."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        digest = hashlib.sha256()
        for number in range(-(-size_bytes // PART_BYTES)):
            digest.update(self.part(number))
        self.sha256 = digest.hexdigest()

    def part(self, number: int) -> bytes:
        size_bytes = min(PART_BYTES, self.size_bytes - number * PART_BYTES)
        return number.to_bytes(8) * (size_bytes // 8) + b"!" * (size_bytes % 8)


def downloaded(api: Api, sha256: str) -> str:
    """The hash of what comes, a part after the other."""
    digest, start = hashlib.sha256(), 0
    while True:
        byte_range = f"bytes={start}-{start + PART_BYTES - 1}"
        response = api.call("GET", f"/v1/blobs/{sha256}", Range=byte_range)
        if response.status == 416:
            return digest.hexdigest()
        assert response.status == 206, response.data[:1000]
        digest.update(response.data)
        start += len(response.data)


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024
