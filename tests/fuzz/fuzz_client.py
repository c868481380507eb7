"""Sends a request and judges its answer: no 5xx, and no error that the document does not have."""

import urllib3

from tests.fuzz.callers import FuzzCaller
from tests.fuzz.counts import Counts
from tests.processes import ServerProcess
from tests.security.permission_matrix import Operation
from tests.server.api.openapi_document import operations

# A server that polls and streams for a moment only, and counts nobody's calls.
PATIENCE = {
    "POTLUCK_POLL_SECONDS": "0.02",
    "POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "0",
    "POTLUCK_WEBHOOK_CALLS_PER_SECOND": "0",
    "POTLUCK_ESTIMATES_PER_SECOND": "0",
    "POTLUCK_ACCOUNT_REQUESTS_PER_SECOND": "0",
    "POTLUCK_SCHEDULE_POLL_SECONDS": "5",
}


class FuzzClient:
    def __init__(self, server: ServerProcess, counts: Counts) -> None:
        self._pool = urllib3.PoolManager(retries=False, timeout=30, maxsize=4)
        self._url = server.url
        self._counts = counts

    def ask(
        self,
        source: str,
        caller: FuzzCaller,
        operation: Operation,
        url: str,
        body: bytes | None,
        headers: dict[str, str],
        must_fail: bool = False,
    ) -> int:
        shown_headers = {name: value for name, value in headers.items() if name != "Authorization"}
        summary = (
            f"{caller.name}: {operation.method} {url[:300]} {shown_headers} {(body or b'')[:300]!r}"
        )
        try:
            status, text = self._send(operation.method, url, body, headers)
        except urllib3.exceptions.HTTPError as error:
            self._counts.blame(f"no answer ({error!r}): {summary}")
            return 0
        self._counts.count(source, caller.name, operation.name, status)
        if status >= 500:
            self._counts.blame(f"{status} {text!r}: {summary}")
        if status >= 400 and str(status) not in operations()[operation.name]["responses"]:
            self._counts.blame(f"{status}, which the document does not have: {summary}")
        if must_fail and status < 400:
            self._counts.blame(f"{status}, and must fail: {summary}")
        return status

    def _send(
        self, method: str, url: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        response = self._pool.request(
            method, self._url + url, body=body, headers=headers, preload_content=False
        )
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        text = b"" if is_stream else response.data[:500]
        if is_stream:
            response.close()
        else:
            response.release_conn()
        return response.status, text

    def close(self) -> None:
        self._pool.clear()


def path_of(operation: Operation, caller: FuzzCaller, object_id: str | None = None) -> str:
    """With the caller's own object, or with this name."""
    if operation.about is None:
        return operation.path
    own_id = caller.person.objects.get(operation.about, "none")
    return operation.url(own_id if object_id is None else object_id)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}
