"""One list of routes: the server offers them, the document describes them, the clients use them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from potluck.server.api.operations import OPERATIONS
from potluck.wire import routes
from potluck.wire.routes import Route
from tests.architecture.repository_files import DOCS, SOURCE

ROUTES = {name: value for name, value in vars(routes).items() if isinstance(value, Route)}
# For load balancers and people, and for pip; no client of ours asks.
FOR_OTHERS = {"READYZ", "PACKAGE_FILE", "METRICS"}
# For the dashboard alone.
FOR_THE_DASHBOARD = {
    *("BROWSER_LOGIN", "BROWSER_LOGOUT"),
    *("CLAIM_FEES", "SEND_CLAIM", "JOINING", "TASK_COUNTS", "TASK_REQUEST", "LIST_TEMPLATES"),
    *(
        "PREVIEW_ACTION",
        "APPLY_ACTION",
        "ITEM_STATES",
        "TASK_RESULT",
        "LIST_VIEWS",
        "SAVE_VIEWS",
        "FOLLOW_POOL_EVENTS",
    ),
}
# For browsers: `NAME: ["METHOD", "path"]` in the scripts of the pages.
IN_A_SCRIPT = re.compile(r"^ *([A-Z_]+): \[\"([A-Z]+)\", \"([^\"]+)\"\]", re.MULTILINE)


DOCUMENT = """
import msgspec, pathlib
from potluck.server.api.app import make_app
from potluck.server.api.document.build import document
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
settings = ServerSettings(data_directory=pathlib.Path("unused"))
services = Services(settings, *[None] * (len(Services.__struct_fields__) - 1))
print(msgspec.json.encode(document(make_app(services))).decode())
"""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """What the server answers at /schema/openapi.json."""
    command = [sys.executable, "-c", DOCUMENT]
    process = subprocess.run(command, capture_output=True, check=True)
    api_document: dict[str, Any] = json.loads(process.stdout)
    return api_document


def test_the_document_describes_exactly_these_routes(document: dict[str, Any]) -> None:
    documented = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    assert documented == {(route.method, route.path) for route in ROUTES.values()}


def test_each_operation_is_named_like_its_route(document: dict[str, Any]) -> None:
    for name, route in ROUTES.items():
        operation = document["paths"][route.path][route.method.lower()]
        assert operation["operationId"] == name.lower()


def test_each_route_is_declared_once() -> None:
    declared = [
        operation.route for operation in OPERATIONS.values() if operation.area.is_documented
    ]
    assert sorted(declared) == sorted(ROUTES.values())


def test_the_clients_use_every_route() -> None:
    text = "".join(
        path.read_text() for part in ("consumer", "provider") for path in _python(SOURCE / part)
    )
    used = set(re.findall(r"\broutes\.([A-Z_]+)\b", text))
    assert used | set(_of_pages()) == set(ROUTES) - FOR_OTHERS - FOR_THE_DASHBOARD


def test_the_pages_know_the_routes_as_they_are() -> None:
    for name, route in _of_pages().items():
        assert ROUTES.get(name) == route, f"the pages have another {name}"
    scripts = [path.read_text() for path in (SOURCE / "server" / "pages").glob("*.js")]
    paths = [path for script in scripts for path in re.findall(r"/v1/[^\"'`]*", script)]
    assert sorted(paths) == sorted(route.path for route in _of_pages().values())


def test_no_path_is_written_twice() -> None:
    """A path in a string, anywhere but in wire/routes.py, is a second list."""
    other_paths = [path for path in _python(SOURCE) if path != SOURCE / "wire" / "routes.py"]
    offenders = [path for path in other_paths if re.search(r"[\"']/v1/", path.read_text())]
    assert not offenders, f"name the route instead: {offenders}"


def test_the_protocol_page_names_every_route_of_a_provider() -> None:
    page = (DOCS / "protocol.md").read_text()
    for route in ROUTES.values():
        if "/v1/nodes" in route.path:
            assert f"{route.method} {route.path}" in page, "docs/protocol.md lacks it"


def _of_pages() -> dict[str, Route]:
    scripts = [path.read_text() for path in (SOURCE / "server" / "pages").glob("*.js")]
    calls = IN_A_SCRIPT.findall("".join(scripts))
    return {name: Route(method, path) for name, method, path in calls}


def _python(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.py"))
