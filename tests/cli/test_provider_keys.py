"""The whole life of a machine's key by the commands, at a real server and with a real provider."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, InProcess
from tests.processes import (
    FAST_PROVIDER,
    PotluckProcess,
    ProviderProcess,
    ServerProcess,
    await_true,
)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("pool")) as server:
        yield server


@pytest.fixture
def owner(tmp_path: Path, pool: ServerProcess) -> CommandLine:
    user = InProcess(tmp_path / "owner")
    user.variables["POTLUCK_WALLET_KEY"] = pool.wallet.key.hex()
    assert user.run("login", pool.url).status == 0
    return user


def test_a_machine_is_listed_revoked_and_brought_back_by_the_wallet(
    tmp_path: Path, pool: ServerProcess, owner: CommandLine
) -> None:
    with ProviderProcess(tmp_path, pool, **FAST_PROVIDER) as provider:
        (listed,) = owner.run("provider", "keys", "--json").lines()[0]["node_keys"]
        assert listed["node_id"] == provider.node_id
        assert listed["id"] in owner.run("provider", "keys").stdout.decode()
        revoked = owner.run("provider", "revoke", listed["id"])
        assert revoked.stdout.decode() == f"Revoked {listed['id']}.\n"
        await_true(lambda: provider.process.poll() is not None, "it ends by itself")
        assert provider.stop() == 77
    assert "No machine" in owner.run("provider", "keys").stderr
    assert owner.run("provider", "revoke", listed["id"]).status == 66
    environment = {**FAST_PROVIDER, "POTLUCK_WALLET_KEY": pool.wallet.key.hex()}
    asked = ["provide", pool.url, "--data-dir", str(tmp_path / "provider"), "--authorise"]
    with PotluckProcess(asked, environment, tmp_path / "again.log") as again:
        assert again.first["node_id"] == provider.node_id, "the same key, so the same node"


def test_a_server_may_allow_short_times_only(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, POTLUCK_NODE_KEY_SECONDS="60") as server,
        ProviderProcess(tmp_path, server, **FAST_PROVIDER) as provider,
    ):
        assert provider.node_id
