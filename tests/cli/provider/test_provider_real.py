"""An owner's day at a real server with a real provider, by the commands alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine, InProcess
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pool")


@pytest.fixture(scope="module")
def pool(directory: Path) -> Iterator[ServerProcess]:
    with ServerProcess(directory) as server:
        yield server


@pytest.fixture(scope="module")
def owner(directory: Path, pool: ServerProcess) -> CommandLine:
    user = InProcess(directory / "owner")
    user.variables["POTLUCK_WALLET_KEY"] = pool.wallet.key.hex()
    user.variables["POTLUCK_PROVIDER_DATA_DIRECTORY"] = str(directory / "provider")
    # Nothing of a test leaves this machine.
    user.variables["POTLUCK_PROVIDER_INDEX_URL"] = "http://127.0.0.1:9/simple"
    assert user.run("login", pool.url).status == 0
    return user


def asked(owner: CommandLine, *arguments: str) -> Any:
    result = owner.run(*arguments, "--json")
    assert result.status == 0, result.stderr
    return result.lines()[0]


def told(owner: CommandLine, *arguments: str) -> str:
    result = owner.run(*arguments)
    assert result.status == 0, result.stderr
    return result.stdout.decode()


def in_pool(owner: CommandLine) -> Any:
    """The one device, as the pool shows it."""
    (device,) = asked(owner, "gpus", "--kind", "any", "--each")["devices"]
    return device


def test_an_owner_s_day(directory: Path, pool: ServerProcess, owner: CommandLine) -> None:
    with ProviderProcess(directory, pool, **FAST_PROVIDER) as provider:
        _sees_it(owner, provider.node_id)
        _changes_terms(owner)
        _pauses_here(owner)
        _pauses_from_elsewhere(owner, directory)
        _is_well(owner)
        assert "Drained" in told(owner, "provider", "drain")
        assert provider.process.wait(30) == 0
        provider.kill()
    assert owner.run("provider", "status").status == 69
    assert "key there is deleted" in told(owner, "provider", "leave", "--yes")
    assert not (directory / "provider" / "node-key").exists()
    assert (directory / "provider" / "provider.toml").exists()
    assert asked(owner, "provider", "keys")["node_keys"] == []
    assert owner.run("provider", "leave", "--yes").status == 66, "once is enough"


def _sees_it(owner: CommandLine, node_id: str) -> None:
    status = asked(owner, "provider", "status")
    assert status["node_id"] == node_id
    (device,) = status["devices"]
    assert device["status"]["availability"] == "available"
    assert device["description"]["model"][:20] in told(owner, "provider", "status")
    assert asked(owner, "provider", "status", "--node", node_id)["id"] == node_id
    assert "No earnings" in owner.run("provider", "earnings").stderr


def _changes_terms(owner: CommandLine) -> None:
    assert "In effect now." in told(owner, "provider", "set", "price=0.25", "memory_share=0.5")
    device = in_pool(owner)
    assert device["description"]["terms"]["price_micro_per_hour"] == 250_000
    assert device["free_memory_bytes"] <= device["description"]["memory_bytes"] / 2
    terms = asked(owner, "provider", "set")["terms"]
    assert terms["price"] == {"value": "0.25", "source": "provider.toml"}


def _pauses_here(owner: CommandLine) -> None:
    assert "In effect now." in told(owner, "provider", "pause", "1")
    await_true(lambda: in_pool(owner)["availability"] == "paused", "the pool knows", 5)
    assert "1 paused" in told(owner, "nodes")
    result = owner.run("provider", "explain")
    assert (
        result.status == 0
        and "paused" in result.stdout.decode()
        and "No explanation" not in result.stderr
    )
    assert "In effect now." in told(owner, "provider", "resume")
    await_true(lambda: in_pool(owner)["availability"] == "available", "the pool knows", 5)


def _pauses_from_elsewhere(owner: CommandLine, directory: Path) -> None:
    name = asked(owner, "provider", "status")["name"]
    told(owner, "provider", "pause", "--node", name)
    assert in_pool(owner)["availability"] == "paused", "at once"

    def is_heard() -> bool:
        (device,) = asked(owner, "provider", "status")["devices"]
        return bool(device["status"]["availability"] == "paused")

    await_true(is_heard, "the node carries it out", 5)
    assert "paused = true" in (directory / "provider" / "provider.toml").read_text()
    told(owner, "provider", "resume")
    await_true(lambda: in_pool(owner)["availability"] == "available", "both sides agree", 5)


def _is_well(owner: CommandLine) -> None:
    result = owner.run("doctor", "provider", "--json")
    (document,) = result.lines()
    findings = {finding["name"]: finding for finding in document["findings"]}
    assert document["is_well"] is (result.status == 0), json.dumps(findings, indent=1)
    for name in ("server", "readiness", "node key", "provider", "provider.toml", "data directory"):
        assert findings[name]["verdict"] == "ok", findings[name]
    assert findings["package index"]["verdict"] == "warn", "nobody listens there"
