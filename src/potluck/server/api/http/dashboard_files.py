"""Responses with files of the dashboard, in the content coding that the client prefers.

The copies were compressed when the dashboard was built; a request never compresses anything.
"""

from typing import Any, Final

from litestar import Request, Response

from potluck.server.api.http.response import EncodedResponse
from potluck.server.dashboard import CODINGS, IDENTITY, DashboardFile
from potluck.server.services import Services

# Browsers revalidate on each use.
REVALIDATED: Final = "no-cache"
# The name contains a hash of the content.
FOR_GOOD: Final = "public, max-age=31536000, immutable"
# The first part of paths that belong to the server: the pages of the dashboard have others.
_RESERVED: Final = frozenset(
    ("assets", "device", "docs", "healthz", "metrics", "pages", "readyz", "schema", "v1")
)


def file_response(
    request: Request[Any, Any, Any], file: DashboardFile, cache_control: str
) -> Response[bytes]:
    coding = _preferred_coding(request, file)
    copy = file.copies[coding]
    headers = {"Cache-Control": cache_control, "ETag": copy.etag, "Vary": "Accept-Encoding"}
    if coding != IDENTITY:
        headers["Content-Encoding"] = coding
    return EncodedResponse(copy.data, status_code=200, media_type=file.media_type, headers=headers)


def navigation_response(request: Request[Any, Any, Any]) -> Response[bytes] | None:
    """The dashboard, for a browser that opens one of its pages; None for any other request.

    Its routes are known to the dashboard alone. Programs that ask for a path that does not exist,
    and everything below the paths of the server, get the usual error.
    """
    services: Services = request.app.state.services
    build = services.dashboard.current
    if build is None or request.method != "GET" or not _is_navigation(request):
        return None
    if request.scope["path"].split("/")[1] in _RESERVED:
        return None
    response = file_response(request, build.index, REVALIDATED)
    response.headers["Vary"] = "Accept, Accept-Encoding, Sec-Fetch-Mode"
    return response


def _is_navigation(request: Request[Any, Any, Any]) -> bool:
    """As the browser says; one that says nothing asks for HTML by name."""
    mode = request.headers.get("sec-fetch-mode")
    if mode is not None:
        return mode == "navigate"
    return "text/html" in ",".join(request.headers.getall("accept", [])).lower()


def _preferred_coding(request: Request[Any, Any, Any], file: DashboardFile) -> str:
    accepted = dict(
        map(_coding, ",".join(request.headers.getall("accept-encoding", [])).split(","))
    )
    for coding in CODINGS:
        if coding in file.copies and accepted.get(coding, accepted.get("*", False)):
            return coding
    return IDENTITY


def _coding(text: str) -> tuple[str, bool]:
    """A content coding, and whether it is accepted at all."""
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    return name, not any(part.replace(" ", "") in _REFUSED for part in parameters)


_REFUSED: Final = frozenset(("q=0", "q=0.0", "q=0.00", "q=0.000"))
