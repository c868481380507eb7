"""Leaving a pool for good, where no provider runs."""

from pathlib import Path

import pytest

from potluck.model.error import NotFound, ServerUnreachable
from potluck.model.ids import NodeId
from potluck.provider.data_directory import attempts_directory, load_node_id, save_node_id
from potluck.provider.owner.file import terms_file
from potluck.provider.server import leave
from potluck.provider.server.leave import leave_for_good
from potluck.provider.server.node_key import Authorised, ensure_key, save_delegation
from tests.processes import free_port
from tests.provider.fake_server import FakeServer

NODE = NodeId("node_01j00000000000000000000000")


def has_provided(directory: Path, url: str) -> None:
    """What a provider leaves in its directory."""
    save_delegation(directory, Authorised(url, ensure_key(directory), 0, 2**32))
    save_node_id(directory, url, NODE)
    attempts_directory(directory, url).mkdir(parents=True)
    (directory / "environments").mkdir(exist_ok=True)
    terms_file(directory).write_text("price = 1\n")


def kept(directory: Path) -> set[str]:
    files = {path.relative_to(directory) for path in directory.rglob("*") if path.is_file()}
    return {str(path) for path in files} - {"lock", "node.json"}


async def test_the_key_is_deleted_with_the_last_server(server: FakeServer, tmp_path: Path) -> None:
    other = f"http://127.0.0.1:{free_port()}"
    has_provided(tmp_path, server.url)
    has_provided(tmp_path, other)
    server.nodes.add(NODE)
    await leave_for_good(tmp_path, server.url)
    assert server.left == [NODE]
    assert load_node_id(tmp_path, server.url) is None and load_node_id(tmp_path, other) == NODE
    assert "node-key" in kept(tmp_path), "the other server still knows it"
    await leave_for_good(tmp_path, other, is_anyway=True)
    assert kept(tmp_path) == {"provider.toml"}
    assert not (tmp_path / "environments").exists()


async def test_leaving_can_be_repeated_after_a_kill(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_provided(tmp_path, server.url)
    server.nodes.add(NODE)

    def die(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(leave, "forget_key", die)
        with pytest.raises(KeyboardInterrupt):
            leave.forget(tmp_path, server.url)
    await leave_for_good(tmp_path, server.url)
    assert kept(tmp_path) == {"provider.toml"}
    assert load_node_id(tmp_path, server.url) is None


async def test_without_a_server_leaving_changes_nothing(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    has_provided(tmp_path, url)
    before = kept(tmp_path)
    with pytest.raises(ServerUnreachable, match="Nothing was deleted") as error_info:
        await leave_for_good(tmp_path, url)
    assert "--anyway" in error_info.value.hint
    assert kept(tmp_path) == before and load_node_id(tmp_path, url) == NODE


async def test_a_key_that_is_not_taken_any_more_has_left_already(
    server: FakeServer, tmp_path: Path
) -> None:
    has_provided(tmp_path, server.url)
    server.takes_keys = False
    await leave_for_good(tmp_path, server.url)
    assert kept(tmp_path) == {"provider.toml"}


async def test_leaving_an_unknown_pool_is_reported(server: FakeServer, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is not in the pool"):
        await leave_for_good(tmp_path, server.url)
