"""Each path lists exactly the methods that it has, whichever method is tried."""

from collections import defaultdict

import pytest

from potluck.server.api.operations import OPERATIONS
from tests.processes import ServerProcess
from tests.security.permission_matrix import NAMES_OF_NOTHING

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE")


def allowed() -> dict[str, set[str]]:
    paths: dict[str, set[str]] = defaultdict(lambda: {"OPTIONS"})
    for operation in OPERATIONS.values():
        paths[operation.route.path].add(operation.route.method)
    return paths


PATHS = sorted(allowed())


def test_some_paths_have_several_methods() -> None:
    assert {"GET", "POST", "DELETE", "OPTIONS"} in allowed().values()
    assert len(PATHS) > 60


@pytest.mark.parametrize("path", PATHS)
def test_every_refusal_names_the_methods_of_the_path(server: ServerProcess, path: str) -> None:
    api, names = server.client(""), {**NAMES_OF_NOTHING, "number": "0"}
    expected = ", ".join(sorted(allowed()[path]))
    response = api.call("OPTIONS", path.format(**names))
    assert (response.status, response.headers["Allow"]) == (204, expected)
    for method in METHODS:
        if method not in allowed()[path]:
            response = api.call(method, path.format(**names))
            assert (response.status, response.headers.get("Allow")) == (405, expected), method


def test_the_document_has_its_methods_too(server: ServerProcess) -> None:
    response = server.client("").call("TRACE", "/schema/openapi.json")
    assert (response.status, response.headers["Allow"]) == (405, "GET, OPTIONS")
