"""The whole life of a machine's key by the commands, at a real server and with a real provider."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from potluck.model.ids import NodeId
from potluck.provider.data_directory import save_node_id
from tests.cli.command_line import CommandLine, InProcess
from tests.cli.pseudo_terminal import Terminal
from tests.processes import (
    FAST_PROVIDER,
    PotluckProcess,
    ProviderProcess,
    ServerProcess,
    await_true,
)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Allows shorter times than a provider asks for."""
    times = {"POTLUCK_NODE_KEY_SECONDS": "600"}
    with ServerProcess(tmp_path_factory.mktemp("pool"), 0, **times) as server:
        yield server


@pytest.fixture
def owner(tmp_path: Path, pool: ServerProcess) -> CommandLine:
    user = InProcess(tmp_path / "owner")
    user.variables["POTLUCK_WALLET_KEY"] = pool.wallet.key.hex()
    assert user.run("login", pool.url).status == 0
    return user


def test_the_wallet_of_a_providing_machine_signs_in_by_itself(
    tmp_path: Path, pool: ServerProcess
) -> None:
    user = InProcess(tmp_path / "owner")
    user.variables |= {
        "POTLUCK_DATA_DIR": str(tmp_path / "data"),
        "POTLUCK_WALLET_KEY": pool.wallet.key.hex(),
    }
    directory = tmp_path / "data" / "provider"
    directory.mkdir(parents=True)
    save_node_id(directory, pool.url, NodeId("node_1"))
    first = user.run("provider", "earnings")
    assert first.status == 0, first.stderr
    assert f"Signed in to {pool.url}" in first.stderr
    result = user.run("provider", "keys", "--json")
    assert result.status == 0, result.stderr


def test_a_machine_is_listed_revoked_and_brought_back_by_the_wallet(
    tmp_path: Path, pool: ServerProcess, owner: CommandLine
) -> None:
    with ProviderProcess(tmp_path, pool, **FAST_PROVIDER) as provider:
        (node_key,) = owner.run("provider", "keys", "--json").lines()[0]["node_keys"]
        assert node_key["node_id"] == provider.node_id
        times = [datetime.fromisoformat(node_key[name]) for name in ("issued_at", "expires_at")]
        assert times[1] - times[0] <= timedelta(seconds=600)
        assert node_key["key"] in owner.run("provider", "keys").stdout.decode()
        owner.variables["COLUMNS"] = "80"
        with Terminal(owner, "provider", "keys") as terminal:
            terminal.until(node_key["id"])
        revoked = owner.run("provider", "revoke", node_key["id"])
        assert revoked.stdout.decode() == f"Revoked {node_key['id']}.\n"
        await_true(lambda: provider.process.poll() is not None, "it ends by itself")
        assert provider.stop() == 77
    assert "No machine" in owner.run("provider", "keys").stderr
    assert owner.run("provider", "revoke", node_key["id"]).status == 66
    environment = {**FAST_PROVIDER, "POTLUCK_WALLET_KEY": pool.wallet.key.hex()}
    arguments = ["provide", pool.url, "--data-dir", str(tmp_path), "--authorise"]
    with PotluckProcess(arguments, environment, tmp_path / "again.log") as second_provider:
        assert second_provider.first["node_id"] == provider.node_id, (
            "the same key, so the same node"
        )
