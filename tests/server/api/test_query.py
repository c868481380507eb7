"""Queries are held to the letter: a filter that is not known would filter nothing."""

import pytest
import urllib3

from potluck.server.api.http.query import known_names
from tests.processes import ServerProcess
from tests.security.people import TASK
from tests.security.permission_matrix import NAMES_OF_NOTHING
from tests.server.api.openapi_document import application, operations


@pytest.mark.parametrize("query", ["nonsense=1", "State=queued", "nonsense", "limit=1&page=2"])
def test_invalid_query_parameters_are_named(server: ServerProcess, query: str) -> None:
    response = server.client().call("GET", f"/v1/tasks?{query}")
    problem = response.json()
    assert (response.status, problem["code"]) == (400, "invalid_input")
    assert f"`{query.split('&')[-1].partition('=')[0]}`" in problem["detail"], problem
    assert problem["hint"] == "Choose from: cursor, find, kind, limit, name, since, state, until."


@pytest.mark.parametrize("query", ["%FF=1", "%00=1", "=1", "a" * 5_000, "&".join("abcdefgh")])
def test_junk_is_refused_in_a_few_words(server: ServerProcess, query: str) -> None:
    response = server.client().call("GET", f"/v1/tasks?{query}")
    assert response.status == 400 and len(response.json()["detail"]) < 500


@pytest.mark.parametrize("name", sorted(operations()))
def test_every_operation_knows_what_the_document_says(name: str) -> None:
    (handler,) = [operation.handler for operation in application() if operation.name == name]
    parameters = operations()[name].get("parameters", [])
    assert known_names(handler) == {
        parameter["name"] for parameter in parameters if parameter.get("in") == "query"
    }


def test_every_operation_refuses_what_it_does_not_know(server: ServerProcess) -> None:
    api, names = server.client(), {**NAMES_OF_NOTHING, "number": "0"}
    api_operations = [operation for operation in application() if operation.path.startswith("/v1/")]
    assert len(api_operations) > 80
    for operation in api_operations:
        path = f"{operation.path.format(**names)}?unheard_of=1"
        response = api.call(operation.method.upper(), path)
        # Who is not let in is told nothing else.
        assert response.status in (400, 403), (operation.name, response.data)
        assert response.status == 403 or "`unheard_of`" in response.json()["detail"], operation.name
        assert "400" in operations()[operation.name]["responses"], operation.name


def test_every_parameter_that_is_no_list_is_given_once(server: ServerProcess) -> None:
    api, names = server.client(), {**NAMES_OF_NOTHING, "number": "0"}
    checked, lists = 0, set()
    for operation in application():
        for parameter in operations()[operation.name].get("parameters", []):
            if parameter.get("in") != "query":
                continue
            name = parameter["name"]
            if parameter["schema"].get("type") == "array":
                lists.add(name)
                continue
            path = f"{operation.path.format(**names)}?{name}=1&{name}=1"
            response = api.call(operation.method.upper(), path)
            checked += 1
            assert response.status in (400, 403), (operation.name, response.data)
            sentence = f"The query parameter `{name}` is given more than once."
            assert response.status == 403 or response.json()["detail"] == sentence, operation.name
    assert checked > 40 and {"state", "label"} <= lists


def test_a_header_that_is_a_parameter_is_given_once(server: ServerProcess) -> None:
    api, headers = server.client(), urllib3.HTTPHeaderDict()
    for value in ("one", "two"):
        headers.add("Idempotency-Key", value)
    headers.add("Authorization", f"Bearer {server.token}")
    response = urllib3.request("POST", f"{api.url}/v1/tasks", headers=headers, json=TASK)
    assert response.status == 400
    assert response.json()["detail"] == "The header `Idempotency-Key` is given more than once."


@pytest.mark.parametrize(
    "path", ["/docs?from=mail", "/device?user_code=BCDF-GHJK", "/healthz?at=1", "/?a", "/v1/tasks?"]
)
def test_pages_and_probes_accept_unknown_parameters(server: ServerProcess, path: str) -> None:
    assert server.client().call("GET", path).status == 200


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        (
            "/v1/tasks?state=bogus",
            "state: 'bogus' is not a valid choice (choose from queued, assigned, running,"
            " succeeded, failed, cancelled, expired).",
        ),
        ("/v1/devices?kind=tpu", "kind: 'tpu' is not a valid choice (choose from gpu, cpu)."),
        ("/v1/events?order=up", "order: 'up' is not a valid choice (choose from oldest, newest)."),
        ("/v1/devices?max_price_micro_per_hour=-1", "max_price_micro_per_hour: "),
    ],
)
def test_a_wrong_value_is_reported_by_its_public_name_with_the_choices(
    server: ServerProcess, path: str, detail: str
) -> None:
    response = server.client().call("GET", path)
    assert response.status == 400 and response.json()["detail"].startswith(detail), response.data
