"""What a browser is shown: files of this package. `http/headers.py` lets them load nothing else."""

from functools import cache
from pathlib import Path
from typing import Final

from litestar import Controller, Response, get

from potluck.model.error import NotFound
from potluck.server.api.response import Answer
from potluck.server.front_page import front_page
from potluck.server.services import Parts

_FOLDER: Final = Path(__file__).parents[1] / "pages"
_KINDS: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class PageController(Controller):
    include_in_schema = False

    @get("/", operation_id="front_page")
    async def front(self, parts: Parts) -> Response[bytes]:
        """What this pool is, and how to join it."""
        page = _files()["front.html"].decode()
        return Response(front_page(parts, page).encode(), media_type=_KINDS[".html"])

    @get("/device", operation_id="device_page")
    async def device(self) -> Response[bytes]:
        """Where a person types the code that a terminal shows."""
        return _answer("device.html")

    @get("/docs", operation_id="docs_page")
    async def docs(self) -> Response[bytes]:
        """The API for people: the document, drawn, with a form to try each operation."""
        return _answer("docs.html")

    @get("/pages/{file:str}", operation_id="page_file")
    async def file(self, file: str) -> Response[bytes]:
        return _answer(file)


def _answer(name: str) -> Response[bytes]:
    data = _files().get(name)
    if data is None:
        raise NotFound(f"There is no file {name[:64]!r} here.")
    # A browser may keep it, and asks each time whether it still is what it was.
    headers = {"Cache-Control": "no-cache"}
    return Answer(data, media_type=_KINDS[Path(name).suffix], headers=headers)


@cache
def _files() -> dict[str, bytes]:
    """Read once, and by name only: a request never becomes a path."""
    return {path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in _KINDS}
