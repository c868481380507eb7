"""Every part of a request has a most, and what is over it gets an answer that can be read."""

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.processes import ServerProcess
from tests.server.http.raw_socket import Answer, Raw
from tests.server.http.test_slow_clients import GET, POST, healthy

LINE = b"GET /healthz HTTP/1.1\r\n"
TOO_LARGE = {
    "one header": LINE + b"X: " + b"a" * 17_000 + b"\r\n\r\n",
    "one header that does not end": LINE + b"X: " + b"a" * 17_000,
    "the name of a header": LINE + b"a" * 17_000 + b": x\r\n\r\n",
    "all headers together": LINE + b"".join(b"X%d: %s\r\n" % (n, b"a" * 400) for n in range(50)),
    "too many headers": LINE + b"".join(b"X%d: \r\n" % n for n in range(200)) + b"\r\n",
    "the address": b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\n\r\n",
    "an address that does not end": b"GET /" + b"a" * 20_000,
    "the trailers of a body": POST
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    + b"".join(b"X%d: %s\r\n" % (n, b"a" * 400) for n in range(50)),
    "the name of a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n1;x=" + b"a" * 600_000,
    "empty lines": b"\r\n" * 9_000,
}
NOT_HTTP = {
    "a greeting of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
    "noise": bytes(range(256)) * 8,
    "no such version": b"GET / HTTP/9.9\r\n\r\n",
    "two lengths": POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a length and chunks": POST
    + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length below zero": POST + b"Content-Length: -1\r\n\r\n",
    "a chunk of no size": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "another server's address": b"CONNECT example.org:443 HTTP/1.1\r\n\r\n",
    "an address that is none": b"GET http:// HTTP/1.1\r\n\r\n",
}


def refused(server: ServerProcess, request: bytes) -> Answer:
    with Raw(server) as stranger:
        stranger.send(request)
        response = stranger.answer()
        assert response.headers["connection"] == "close"
        assert stranger.socket.recv(1) == b"", "and then it hangs up"
    return response


def all_refused(server: ServerProcess, requests: dict[str, bytes]) -> Iterator[tuple[str, Answer]]:
    """At once: a server takes a second to hang up on somebody who may still be sending."""
    with ThreadPoolExecutor(len(requests)) as strangers:
        responses = strangers.map(partial(refused, server), requests.values())
        yield from zip(requests, responses, strict=True)


def test_too_large_headers_get_431(edge: ServerProcess) -> None:
    for case, answer in all_refused(edge, TOO_LARGE):
        assert (answer.status, answer.problem["code"]) == (431, "headers_too_large"), case
        assert re.search(r"at most\.$", answer.problem["detail"]), case
        assert answer.problem["hint"], case


def test_invalid_http_gets_400(edge: ServerProcess) -> None:
    for case, answer in all_refused(edge, NOT_HTTP):
        assert (answer.status, answer.problem["code"]) == (400, "invalid_input"), case


def test_a_refusal_has_the_headers_of_every_answer(edge: ServerProcess) -> None:
    headers = refused(edge, TOO_LARGE["one header"]).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]


def test_a_refusal_can_be_read_by_a_client_that_still_sends(edge: ServerProcess) -> None:
    with Raw(edge) as stranger:
        stranger.send(LINE + b"X: ")
        for _ in range(5):
            stranger.send(b"a" * 1_000_000)
        assert stranger.answer().status == 431


def test_headers_of_the_usual_size_are_taken(edge: ServerProcess) -> None:
    with Raw(edge) as client:
        client.send(LINE + b"X: " + b"a" * 8_000 + b"\r\nY: " + b"b" * 8_000 + b"\r\n\r\n")
        assert client.answer().status == 200


def test_requests_in_a_row_are_answered_in_their_order(edge: ServerProcess) -> None:
    with Raw(edge) as client:
        client.send(GET + b"GET /nowhere HTTP/1.1\r\nHost: pool\r\n\r\n" + GET)
        assert [client.answer().status for _ in range(3)] == [200, 404, 200]


def test_another_protocol_is_not_offered(edge: ServerProcess) -> None:
    with Raw(edge) as client:
        client.send(LINE + b"Host: pool\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        response = client.answer()
        assert (response.status, response.headers["connection"]) == (200, "close")


def test_a_body_over_the_limit_is_refused_before_it_is_read(edge: ServerProcess) -> None:
    with Raw(edge) as stranger:
        stranger.send(POST + b"Content-Length: 1048577\r\n\r\n")
        response = stranger.answer()
        assert (response.status, response.problem["code"]) == (413, "too_large")


def test_a_body_that_says_no_length_is_counted(edge: ServerProcess) -> None:
    with Raw(edge) as stranger:
        stranger.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"a" * 65_536 + b"\r\n"
        for _ in range(17):
            stranger.send(chunk)
        assert stranger.answer().status == 413


def test_a_body_that_is_too_large_leaves_the_connection_in_order(edge: ServerProcess) -> None:
    with Raw(edge) as client:
        client.send(POST + b"Content-Length: 2000000\r\n\r\n" + b"a" * 2_000_000 + GET)
        assert client.answer().status == 413
        assert client.answer().status == 200


def test_a_client_that_hangs_up_disturbs_no_other(edge: ServerProcess) -> None:
    for fragment in (b"", b"GET", POST, POST + b"Content-Length: 10\r\n\r\n{"):
        with Raw(edge) as stranger:
            stranger.send(fragment)
            stranger.socket.shutdown(socket.SHUT_RDWR)
    assert healthy(edge) < 3
