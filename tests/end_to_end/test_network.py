"""A task's network from the option to the proxy, on the owner's terms: real server, real provider.

What the proxy lets through to real servers, and what never, is in tests/provider/egress.
"""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.test_owner import Machine
from tests.processes import Api, ServerProcess, await_true
from tests.wallets import Wallet

# Asks the proxy for the canary on loopback in two ways, and for a host that does not exist.
ASK = """
import os, socket
proxy = os.environ["https_proxy"]
assert proxy == os.environ["HTTP_PROXY"] == os.environ["ALL_PROXY"], proxy
host, _, port = proxy.removeprefix("http://").partition(":")
for text in ("CONNECT 127.0.0.1:{port}", "GET http://127.0.0.1:{port}/", "CONNECT a.invalid:443",
             "CONNECT site.example.org:9"):
    with socket.create_connection((host, int(port)), 10) as end:
        end.sendall((text + " HTTP/1.1\\r\\n\\r\\n").encode())
        print(end.makefile("rb").readline().decode().strip(), flush=True)
"""
QUIET = "import os; print('proxy' if 'HTTP_PROXY' in os.environ else 'no proxy')"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    presets = tmp_path_factory.mktemp("presets") / "presets.toml"
    presets.write_text('[presets]\nours = ["git.ours.net"]\n')
    directory = tmp_path_factory.mktemp("network")
    with ServerProcess(directory, POTLUCK_NETWORK_PRESETS=str(presets)) as server:
        yield server


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, server: ServerProcess) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("machine"), server)
    with machine.process:
        yield machine


class Canary:
    """A service on loopback that no task may reach."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.reached = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                self._listener.accept()[0].close()
                self.reached += 1

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def needing(*hosts: str, **changes: Any) -> dict[str, Any]:
    return {"requirements": {"network": list(hosts), **changes}}


def waits_for_network(client: Api, task_id: str) -> str:
    """The sentence about the nodes that do not allow its network."""

    def look() -> str:
        explanation = client.get(f"/v1/tasks/{task_id}/explain")
        refusals = [
            refusal for refusal in explanation.get("refusals", []) if refusal["code"] == "network"
        ]
        return str(refusals[0]["sentence"]) if refusals and explanation["state"] == "queued" else ""

    await_true(lambda: bool(look()), f"{task_id} waits for network", 10)
    return look()


def test_an_owners_task_has_the_proxy_and_never_loopback(
    server: ServerProcess, machine: Machine
) -> None:
    client = server.client()
    with closing(Canary()) as canary:
        ports = needing("open", f"*:{canary.port}")
        machine.command("set", f"own_network=open,*:{canary.port}")
        task_id = client.submit(ASK.replace("{port}", str(canary.port)), **ports)
        task = client.finished(task_id)
        log = client.log(task_id)
        assert task["state"] == "succeeded", (task, log)
        lines = log.splitlines()
        assert [line.split(" ")[1] for line in lines[:4]] == ["403"] * 4, lines
        assert f"127.0.0.1:{canary.port} was refused: it is not a public address." in log
        assert "a.invalid:443 was refused: it is not a public address." in log
        assert "site.example.org:9 was refused: --network does not allow it." in log
        assert canary.reached == 0
    assert machine.status().network_used_bytes == 0, "nothing was moved"
    plain = client.submit(QUIET)
    assert client.finished(plain)["state"] == "succeeded"
    assert client.log(plain) == "no proxy\n"


def test_a_stranger_waits_until_the_owner_allows_it(
    server: ServerProcess, machine: Machine
) -> None:
    stranger = server.client(server.sign_in(Wallet("needs the network")))
    task_id = stranger.submit(QUIET, **needing("ours"))
    requirements = stranger.get(f"/v1/tasks/{task_id}")["requirements"]
    assert requirements["network"] == ["git.ours.net"], "the server expands its own presets"

    assert "--network" in waits_for_network(stranger, task_id)
    spec = {"kind": "script", "filename": "a.py", "source": QUIET}
    estimate = stranger.post("/v1/tasks/estimate", {"spec": spec, **needing("ours")})
    assert "network" in json.dumps(estimate["refusals"]), estimate
    own_estimate = server.client().post("/v1/tasks/estimate", {"spec": spec, **needing("ours")})
    assert not own_estimate["refusals"], "the owner's own tasks may reach it"
    explanation = json.dumps(server.client().get(f"/v1/nodes/{machine.node_id}/explain"))
    assert "needs network that its owner does not allow" in explanation
    machine.command("set", "network=git.ours.net,pypi", "network_per_task=20GB")
    finished = stranger.finished(task_id)
    assert finished["state"] == "succeeded" and stranger.log(task_id) == "proxy\n"
    too_much = stranger.submit(QUIET, **needing("pypi", network_bytes=30 * 10**9))
    waits_for_network(stranger, too_much)
    machine.command("set", "network=none")
    other = stranger.submit(QUIET, **needing("pypi"))
    waits_for_network(stranger, other)
    for waiting in (too_much, other):
        stranger.post(f"/v1/tasks/{waiting}/cancel", {})


def test_a_server_with_wrong_presets_does_not_start(tmp_path: Path) -> None:
    presets = tmp_path / "presets.toml"
    presets.write_text('[presets]\nhome = ["192.168.1.1"]\n')
    with pytest.raises(AssertionError, match="network presets"):
        ServerProcess(tmp_path, POTLUCK_NETWORK_PRESETS=str(presets))
