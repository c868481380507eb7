"""The document as the server makes it, without a server."""

import warnings
from functools import cache
from pathlib import Path
from typing import Any

from litestar import Litestar

from potluck.server.api.app import make_app
from potluck.server.api.document import build
from potluck.server.api.document.operation import Described
from potluck.server.services import Services
from potluck.server.settings import ServerSettings


@cache
def _app() -> Litestar:
    settings = ServerSettings(data_directory=Path("unused"))
    other_services: list[Any] = [None] * (len(Services.__struct_fields__) - 1)
    with warnings.catch_warnings():
        # What the framework will do otherwise in its next major version.
        warnings.simplefilter("ignore", DeprecationWarning)
        return make_app(Services(settings, *other_services))


@cache
def document() -> dict[str, Any]:
    return build.document(_app())


def application() -> list[Described]:
    return build.operations(_app())


def operations() -> dict[str, dict[str, Any]]:
    """By name, as the document tells them."""
    all_operations = [
        operation for methods in document()["paths"].values() for operation in methods.values()
    ]
    return {operation["operationId"]: operation for operation in all_operations}
