"""`potluck admin rotate-key`, against a real server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.cli.command_line import CommandLine, InProcess
from tests.processes import ServerProcess
from tests.wallets import Wallet

KEY, NEW_KEY = "5e" * 32, "a7" * 32


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("pool")) as running:
        yield running


def signed_in(directory: Path, pool: ServerProcess, wallet: Wallet) -> CommandLine:
    user = InProcess(directory)
    user.variables["POTLUCK_WALLET_KEY"] = wallet.key.hex()
    assert user.run("login", pool.url).status == 0
    return user


def keys_of(pool: ServerProcess) -> list[str]:
    text = (pool.directory / "server" / "encryption-key").read_text()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_an_admin_changes_the_key(tmp_path: Path, pool: ServerProcess) -> None:
    admin = signed_in(tmp_path, pool, pool.wallet)
    for number in range(3):
        pool.client().submit(f"print({number})")
    before = keys_of(pool)

    result = admin.run("admin", "rotate-key")
    assert result.status == 0, result.stderr
    assert "4 rows were re-encrypted" in result.stdout.decode(), "three tasks, and the secret"
    assert "Back up the key file" in result.stderr
    assert keys_of(pool)[1:] == before and len(keys_of(pool)) == 2

    (rewrite,) = admin.run("admin", "rotate-key", "--rewrite", "--json").lines()
    assert (rewrite["rewritten"], rewrite["remaining"]) == (0, 0), "there was nothing left to do"
    assert len(keys_of(pool)) == 2, "and no new key was made"

    audit_text = admin.run("admin", "audit").stdout.decode()
    assert "encryption_key_rotated" in audit_text and rewrite["key_id"] in audit_text
    log = (pool.directory / "server.log").read_text()
    all_output = result.stdout.decode() + result.stderr + audit_text + log
    assert not any(key in all_output for key in keys_of(pool)), "a key is named by its id only"


def test_only_admins_may_rotate_the_key(tmp_path: Path, pool: ServerProcess) -> None:
    before = keys_of(pool)
    result = signed_in(tmp_path, pool, Wallet("ada")).run("admin", "rotate-key")
    assert result.status == 77
    assert keys_of(pool) == before


def test_a_readable_secret_file_is_reported_in_the_log_only(
    tmp_path: Path, pool: ServerProcess
) -> None:
    file, before = pool.directory / "server" / "encryption-key", keys_of(pool)
    admin = signed_in(tmp_path, pool, pool.wallet)
    file.chmod(0o644)
    try:
        result = admin.run("admin", "rotate-key")
    finally:
        file.chmod(0o600)
    assert result.status == 70 and "settings" in result.stderr
    assert str(file) not in result.stderr and "chmod" not in result.stderr
    assert f"Others on this machine can read {file}" in (pool.directory / "server.log").read_text()
    assert keys_of(pool) == before


def test_an_undecryptable_task_is_skipped_and_reported(tmp_path: Path, database_url: str) -> None:
    shared = {
        "POTLUCK_DATABASE_URL": database_url,
        "POTLUCK_ENCRYPTION_KEY_FILE": str(tmp_path / "key"),
    }
    with ServerProcess(tmp_path / "s", 0, **shared) as server:
        damaged, _ = server.client().submit("print(1)"), server.client().submit("print(2)")
        asyncio.run(damage(database_url, damaged))
        admin = signed_in(tmp_path, server, server.wallet)
        result = admin.run("admin", "rotate-key")
        assert result.status == 0, result.stderr
        assert "2 rows were re-encrypted" in result.stdout.decode(), "one task, and the secret"
        assert "Tasks that cannot be decrypted, and were left unchanged: 1." in result.stderr
        (rewrite,) = admin.run("admin", "rotate-key", "--rewrite", "--json").lines()
        assert (rewrite["remaining"], rewrite["unreadable"]) == (0, 1)
        assert damaged in (tmp_path / "s" / "server.log").read_text()


async def damage(url: str, task_id: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "UPDATE tasks SET sealed_spec = sealed_spec || '\\x00' WHERE id = $1", task_id
        )
    finally:
        await connection.close()


def test_a_key_that_the_server_does_not_keep_is_for_its_keeper_to_change(
    tmp_path: Path, database_url: str
) -> None:
    variables = {"POTLUCK_DATABASE_URL": database_url}
    with ServerProcess(tmp_path / "s", 0, POTLUCK_ENCRYPTION_KEY=KEY, **variables) as server:
        server.client().submit("print(1)")
        admin = signed_in(tmp_path, server, server.wallet)
        result = admin.run("admin", "rotate-key")
        assert result.status == 1 and "POTLUCK_ENCRYPTION_KEY" in result.stderr
        assert "--rewrite" in result.stderr, "and it is said what to do"
    both = f"{NEW_KEY},{KEY}"
    with ServerProcess(
        tmp_path / "s", server.port, POTLUCK_ENCRYPTION_KEY=both, **variables
    ) as server:
        (rewrite,) = admin.run("admin", "rotate-key", "--rewrite", "--json").lines()
        assert (rewrite["rewritten"], rewrite["remaining"]) == (2, 0)
    with ServerProcess(tmp_path / "s", 0, POTLUCK_ENCRYPTION_KEY=NEW_KEY, **variables):
        pass  # the old key is not needed any more
    with pytest.raises(AssertionError, match="does not belong to this database"):
        ServerProcess(tmp_path / "s", 0, POTLUCK_ENCRYPTION_KEY=KEY, **variables)
