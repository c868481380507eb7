"""Clients whose protocol the server does not speak are told what to install, before all else."""

import pytest

import potluck
from potluck.wire import routes
from potluck.wire.version import OLDEST_PROTOCOL, PROTOCOL
from tests.processes import ServerProcess


@pytest.mark.parametrize(
    ("protocol", "advice"),
    [
        (OLDEST_PROTOCOL - 1, "Upgrade Potluck on this machine: run `pip install"),
        (PROTOCOL + 1, "Ask the operator to upgrade the server, or run `pip install"),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/me"), ("POST", "/v1/auth/challenge"), ("POST", "/v1/tasks")]
)
def test_another_protocol_is_refused_with_the_command_to_install(
    server: ServerProcess, method: str, path: str, protocol: int, advice: str
) -> None:
    """Also where nobody is signed in, and whatever the body is."""
    response = server.client("").call(
        method, path, Potluck_Protocol=str(protocol), User_Agent="potluck/7.8.9"
    )
    problem = response.json()
    assert (response.status, problem["code"]) == (426, "upgrade_required"), problem
    assert f"protocol {protocol} (Potluck 7.8.9)" in problem["detail"]
    assert f"Potluck {potluck.__version__}" in problem["detail"]
    assert problem["hint"].startswith(advice) and "#sha256=" in problem["hint"]


@pytest.mark.parametrize("agent", ["potluck/0.1.0", "curl/8.0", "", "potluck/", "potluck"])
def test_the_last_version_and_other_programs_are_served(server: ServerProcess, agent: str) -> None:
    response = server.client().call("GET", "/v1/me", User_Agent=agent)
    assert response.status == 200


@pytest.mark.parametrize("protocol", ["", "-1", "1.0", "1e3", "9" * 10, "\u00b2"])
def test_invalid_numbers_are_refused(server: ServerProcess, protocol: str) -> None:
    response = server.client().call("GET", "/v1/me", Potluck_Protocol=protocol)
    assert response.status == 400 and "Potluck-Protocol" in response.json()["detail"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", routes.PACKAGE.path])
def test_probes_and_the_package_are_for_all(server: ServerProcess, path: str) -> None:
    """Otherwise a client could not learn the server's version, nor be upgraded."""
    response = server.client("").call("GET", path, Potluck_Protocol=str(PROTOCOL + 1))
    assert response.status == 200
