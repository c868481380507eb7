"""What every answer says to a browser, and that no other site may read any."""

import pytest

from tests.processes import ServerProcess
from tests.server.http.raw import Raw

CLOSED = "default-src 'none'; frame-ancestors 'none'"
ANSWERS = {
    "an answer": ("GET", "/healthz", 200),
    "a refusal": ("GET", "/v1/me", 401),
    "nothing there": ("GET", "/nowhere", 404),
    "another method": ("DELETE", "/healthz", 405),
    "the schema": ("GET", "/schema/openapi.json", 200),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_of_the_api_is_for_programs_only(edge: ServerProcess, what: str) -> None:
    method, path, status = ANSWERS[what]
    answer = edge.client("").call(method, path)
    assert answer.status == status
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Security-Policy"] == CLOSED
    assert "Strict-Transport-Security" not in answer.headers, "plain HTTP cannot promise TLS"
    assert "Server" not in answer.headers


def test_a_page_may_load_its_own_files_and_nothing_inline(edge: ServerProcess) -> None:
    answer = edge.client("").call("GET", "/")
    assert answer.headers["Content-Type"].startswith("text/html")
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self';") and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_what_has_not_changed_keeps_the_policy_that_it_came_with(edge: ServerProcess) -> None:
    client = edge.client("")
    etag = client.call("GET", "/docs").headers["ETag"]
    answer = client.call("GET", "/docs", If_None_Match=etag)
    assert answer.status == 304 and "Content-Security-Policy" not in answer.headers
    assert answer.headers["X-Frame-Options"] == "DENY"


def test_each_header_is_documented_once(edge: ServerProcess) -> None:
    for path in ("/", "/healthz", "/device", "/v1/me"):
        headers = edge.client("").call("GET", path).headers
        names = ("content-security-policy", "cache-control", "x-content-type-options")
        assert all(len(headers.getlist(name)) == 1 for name in names), path


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_no_other_site_is_let_in(edge: ServerProcess, method: str) -> None:
    asked = {"Origin": "https://elsewhere.example", "Access_Control_Request_Method": "POST"}
    answer = edge.client("").call(method, "/v1/auth/challenge", None, **asked)
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_under_tls_the_browser_is_told_to_stay_there(secure: ServerProcess) -> None:
    with Raw(secure) as client:
        client.send(b"GET /healthz HTTP/1.1\r\nHost: pool\r\n\r\n")
        assert client.answer().headers["strict-transport-security"] == "max-age=63072000"
