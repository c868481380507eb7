"""A node and a server of different versions, as real processes: told, and explained."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import potluck
from tests.processes import FAST_PROVIDER, PotluckProcess, ServerProcess

SERVERS_VERSION = "99.0.0"
OF_ANOTHER_VERSION = f"import potluck\npotluck.__version__ = {SERVERS_VERSION!r}\n"
# What a later version of the node may say that an earlier server does not know.
WITH_A_NEW_FIELD = """
from potluck.wire import provider
class RegisterNode(provider.RegisterNode, frozen=True, forbid_unknown_fields=True):
    colour: str = "blue"
provider.RegisterNode = RegisterNode
"""
WITH_A_NEW_VALUE = """
from msgspec.structs import force_setattr
from potluck.wire import provider
class RegisterNode(provider.RegisterNode, frozen=True, forbid_unknown_fields=True):
    colour: str = "blue"
    def __post_init__(self):
        force_setattr(self, "colour", "red")
provider.RegisterNode = RegisterNode
"""
OF_ANOTHER_PROTOCOL = """
from potluck.wire import version
version.PROTOCOL = 2
"""


def changed(directory: Path, change: str) -> dict[str, str]:
    """For a process of ours that is as another version would be."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(change)
    path = [str(directory), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path))}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("skew")
    variables = changed(directory / "change", OF_ANOTHER_VERSION)
    with ServerProcess(directory, 0, **variables) as server:
        yield server


class Node(PotluckProcess):
    def __init__(self, directory: Path, server: ServerProcess, **environment: str) -> None:
        wallet = {"POTLUCK_WALLET_KEY": server.wallet.key.hex()}
        arguments = ["provide", server.url, "--data-dir", str(directory)]
        variables = {**wallet, **FAST_PROVIDER, **environment}
        super().__init__(arguments, variables, directory / "provider.log")

    def next_event(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        event: dict[str, Any] = json.loads(self.process.stdout.readline())
        return event


def test_a_server_of_another_version_is_reported_and_work_continues(
    server: ServerProcess, tmp_path: Path
) -> None:
    assert server.client("").get("/healthz")["version"] == SERVERS_VERSION
    with Node(tmp_path, server) as node:
        assert node.first["event"] == "registered"
        event = node.next_event()
        assert (event["event"], event["ours"]) == ("version_skew", potluck.__version__)
        assert event["theirs"] == SERVERS_VERSION and "older" in event["detail"]
        client = server.client()
        assert client.finished(client.submit("print('all the same')"))["state"] == "succeeded"


def test_unused_new_fields_are_not_sent(server: ServerProcess, tmp_path: Path) -> None:
    variables = changed(tmp_path / "change", WITH_A_NEW_FIELD)
    with Node(tmp_path, server, **variables) as node:
        assert node.first["event"] == "registered"


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        pytest.param(WITH_A_NEW_VALUE, "does not understand the registration", id="a new field"),
        pytest.param(OF_ANOTHER_PROTOCOL, "speaks protocol 2", id="another protocol"),
    ],
)
def test_a_version_mismatch_is_explained_and_changes_nothing(
    server: ServerProcess, tmp_path: Path, change: str, detail: str
) -> None:
    before = server.client().get("/v1/nodes")["nodes"]
    with pytest.raises(AssertionError) as error_info:
        Node(tmp_path, server, **changed(tmp_path / "change", change))
    error = str(error_info.value)
    assert "upgrade_required" in error and detail in error
    assert SERVERS_VERSION in error
    nodes = server.client().get("/v1/nodes")["nodes"]
    assert [node["id"] for node in nodes] == [node["id"] for node in before]
