"""Pages for browsers: files of this package. `http/headers.py` lets them load nothing else."""

from functools import cache
from pathlib import Path
from typing import Final

from litestar import Response

from potluck.model.alert import RUNBOOK_PATH
from potluck.model.error import NotFound
from potluck.server.api.area import OPEN, Area
from potluck.server.api.http.response import EncodedResponse
from potluck.server.front_page import front_page as fill_front_page
from potluck.server.services import Services
from potluck.wire.routes import Route

_FOLDER: Final = Path(__file__).parents[1] / "pages"
_KINDS: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


AREA: Final = Area("pages", "Pages for browsers.", is_documented=False)


@AREA.operation(Route("GET", "/"), OPEN, "See what this pool is")
async def front_page(services: Services) -> Response[bytes]:
    """What this pool is, and how to join it."""
    page = _files()["front.html"].decode()
    return Response(fill_front_page(services, page).encode(), media_type=_KINDS[".html"])


@AREA.operation(Route("GET", "/device"), OPEN, "Approve a terminal in a browser")
async def device_page() -> Response[bytes]:
    """The page where a user types the code that a terminal shows."""
    return _answer("device.html")


@AREA.operation(Route("GET", "/docs"), OPEN, "Read about the API")
async def docs_page() -> Response[bytes]:
    """The API documentation, with a form to try each operation."""
    return _answer("docs.html")


@AREA.operation(Route("GET", RUNBOOK_PATH), OPEN, "Read what to do about an alert")
async def runbook_page() -> Response[bytes]:
    """What each alert means, what to look at and what to do."""
    return _answer("runbook.html")


@AREA.operation(Route("GET", "/pages/{file}"), OPEN, "Fetch a file of a page")
async def page_file(file: str) -> Response[bytes]:
    return _answer(file)


def _answer(name: str) -> Response[bytes]:
    data = _files().get(name)
    if data is None:
        raise NotFound(f"This server has no file {name[:64]!r}.")
    # A browser may cache it, but revalidates on each use.
    headers = {"Cache-Control": "no-cache"}
    return EncodedResponse(data, media_type=_KINDS[Path(name).suffix], headers=headers)


@cache
def _files() -> dict[str, bytes]:
    """Read once and looked up by name: a request never becomes a path."""
    return {path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in _KINDS}
