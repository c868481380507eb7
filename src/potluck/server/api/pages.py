"""Pages for browsers: files of this package. `http/headers.py` lets them load nothing else.

`/` is the dashboard. While there is no build of it, `/` is the page that says how to join, and
`/device` one that needs no build.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final

from litestar import Request, Response

from potluck.model.alert import RUNBOOK_PATH
from potluck.model.error import NotFound
from potluck.server.api.area import OPEN, Area
from potluck.server.api.http.dashboard_files import FOR_GOOD, REVALIDATED, file_response
from potluck.server.api.http.response import EncodedResponse
from potluck.server.dashboard import MEDIA_TYPES
from potluck.server.front_page import front_page as fill_front_page
from potluck.server.services import Services
from potluck.wire.routes import Route

_FOLDER: Final = Path(__file__).parents[1] / "pages"
_REVALIDATED: Final = {"Cache-Control": REVALIDATED}


AREA: Final = Area("pages", "Pages for browsers.", is_documented=False)


@AREA.operation(Route("GET", "/"), OPEN, "See this pool")
async def front_page(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """The dashboard, or without a build of it, how to join."""
    return _dashboard(request, services) or _join_page(services)


@AREA.operation(Route("GET", "/pages/join"), OPEN, "See how to join")
async def join_page(services: Services) -> Response[bytes]:
    """What this pool is, and how to join it. Works without scripts."""
    return _join_page(services)


@AREA.operation(Route("GET", "/assets/{file}"), OPEN, "Fetch a file of the dashboard")
async def dashboard_asset(
    request: Request[Any, Any, Any], services: Services, file: str
) -> Response[bytes]:
    asset = services.dashboard.asset(file)
    if asset is None:
        raise _no_file(file)
    return file_response(request, asset, FOR_GOOD)


@AREA.operation(Route("GET", "/device"), OPEN, "Approve a terminal in a browser")
async def device_page(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """The page where a user types the code that a terminal shows. It works without a built
    dashboard too."""
    return _dashboard(request, services) or _answer("device.html")


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


def _dashboard(request: Request[Any, Any, Any], services: Services) -> Response[bytes] | None:
    build = services.dashboard.current
    return None if build is None else file_response(request, build.index, REVALIDATED)


def _join_page(services: Services) -> Response[bytes]:
    page = fill_front_page(services, _files()["front.html"].decode())
    return EncodedResponse(page.encode(), media_type=MEDIA_TYPES[".html"], headers=_REVALIDATED)


def _answer(name: str) -> Response[bytes]:
    data = _files().get(name)
    if data is None:
        raise _no_file(name)
    media_type = MEDIA_TYPES[Path(name).suffix]
    return EncodedResponse(data, media_type=media_type, headers=_REVALIDATED)


def _no_file(name: str) -> NotFound:
    return NotFound(f"This server has no file {name[:64]!r}.")


@cache
def _files() -> dict[str, bytes]:
    """Read once and looked up by name: a request never becomes a path."""
    return {
        path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in MEDIA_TYPES
    }
