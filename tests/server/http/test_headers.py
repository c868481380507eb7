"""What every answer says to a browser, and that no other site may read any."""

import pytest

from tests.processes import ServerProcess
from tests.server.http.raw_socket import Raw

CLOSED = "default-src 'none'; frame-ancestors 'none'"
ANSWERS = {
    "an answer": ("GET", "/healthz", 200),
    "a refusal": ("GET", "/v1/me", 401),
    "nothing there": ("GET", "/nowhere", 404),
    "another method": ("DELETE", "/healthz", 405),
    "the schema": ("GET", "/schema/openapi.json", 200),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_of_the_api_is_for_programs_only(edge: ServerProcess, case: str) -> None:
    method, path, status = ANSWERS[case]
    response = edge.client("").call(method, path)
    assert response.status == status
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Content-Security-Policy"] == CLOSED
    assert "Strict-Transport-Security" not in response.headers, "plain HTTP cannot promise TLS"
    assert "Server" not in response.headers


def test_a_page_may_load_its_own_files_and_nothing_inline(edge: ServerProcess) -> None:
    response = edge.client("").call("GET", "/")
    assert response.headers["Content-Type"].startswith("text/html")
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self';") and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_a_not_modified_response_does_not_replace_the_policy(edge: ServerProcess) -> None:
    client = edge.client("")
    etag = client.call("GET", "/docs").headers["ETag"]
    response = client.call("GET", "/docs", If_None_Match=etag)
    assert response.status == 304 and "Content-Security-Policy" not in response.headers
    assert response.headers["X-Frame-Options"] == "DENY"


def test_each_header_is_documented_once(edge: ServerProcess) -> None:
    for path in ("/", "/healthz", "/device", "/v1/me"):
        headers = edge.client("").call("GET", path).headers
        names = ("content-security-policy", "cache-control", "x-content-type-options")
        assert all(len(headers.getlist(name)) == 1 for name in names), path


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_no_other_site_is_let_in(edge: ServerProcess, method: str) -> None:
    headers = {"Origin": "https://elsewhere.example", "Access_Control_Request_Method": "POST"}
    response = edge.client("").call(method, "/v1/auth/challenge", None, **headers)
    assert not [name for name in response.headers if name.lower().startswith("access-control")]


def test_under_tls_the_browser_is_told_to_use_only_https(secure: ServerProcess) -> None:
    with Raw(secure) as client:
        client.send(b"GET /healthz HTTP/1.1\r\nHost: pool\r\n\r\n")
        assert client.answer().headers["strict-transport-security"] == "max-age=63072000"
