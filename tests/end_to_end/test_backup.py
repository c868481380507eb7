"""A backup of a server that works is restored elsewhere, and the work goes on there."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from potluck.decide.invariants import check_invariants
from potluck.server.backup.directory import DirectoryBackups
from potluck.server.backup.manifest import MANIFEST, blob_member, decode_manifest
from potluck.server.backup.pieces import join
from potluck.server.backup.run import verify_member
from tests.databases import Databases
from tests.end_to_end.database_check import check_truth, take
from tests.end_to_end.load import PRICE, submit_with_file, under_load
from tests.processes import (
    FAST_PROVIDER,
    Api,
    ProviderProcess,
    ServerProcess,
    WholeServerProcess,
    await_true,
    potluck,
)

SECRET = {"POTLUCK_BACKUP_PASSPHRASE": "correct horse battery"}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def admin(*arguments: str | Path, **environment: str) -> dict[str, Any]:
    process = subprocess.run(
        potluck("admin", *arguments, "--json"),
        env={**os.environ, **environment},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert process.stdout, process.stderr.decode()
    document: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return document


@pytest.mark.long  # tests/server/backup/ has the same without processes
def test_under_load_and_elsewhere_the_work_goes_on(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(WholeServerProcess(tmp_path / "first"))
    provider = ProviderProcess(tmp_path / "node", server, **FAST_PROVIDER, **PRICE)
    stack.enter_context(provider)
    with under_load(server, clients=2, first=5, pause_seconds=0.3) as load:
        await_true(lambda: any_finished(server, load.acknowledged[:3]), "some have finished")
        before = list(load.acknowledged)
        backup = admin("backup", tmp_path / "backups", "--data-dir", tmp_path / "first")
        assert backup["missing_blobs"] == 0 and backup["blobs"] >= len(before)
        await_true(lambda: load.count() > len(before) + 5, "the server goes on")
        second_backup = admin("backup", tmp_path / "backups", "--data-dir", tmp_path / "first")
        assert second_backup["new_bytes"] < second_backup["size_bytes"], "files are copied once"
        after = load.count()
        await_true(lambda: load.count() > after + 5, "tasks come after the backup")
    assert load.failed == []
    server.kill()

    # The second machine has the backup and, from elsewhere, the key.
    other = tmp_path / "second"
    (other / "server").mkdir(mode=0o700, parents=True)
    shutil.copy(tmp_path / "first" / "server" / "encryption-key", other / "server")
    restored = admin("restore", tmp_path / "backups", "--data-dir", other)
    assert restored["rows"] == second_backup["rows"] and not restored["lacks_encryption_key"]
    check_truth(other)

    moved = stack.enter_context(WholeServerProcess(other, server.port))
    for token, task_id in before:
        task = Api(moved.url, token).finished(task_id)
        assert task["state"] == "succeeded", task
    token, task_id = before[0]
    client = Api(moved.url, token)
    (file,) = client.get(f"/v1/tasks/{task_id}/files")["files"]
    assert client.call("GET", f"/v1/blobs/{file['blob']['sha256']}").status == 200
    assert len(client.log(task_id)) > 5
    new = Api(moved.url, token).submit("print(1)")
    assert client.finished(new)["state"] == "succeeded", "the node works for the restored server"
    assert provider.stop() == 0
    assert moved.stop() == 0
    snapshot = check_truth(other)
    assert snapshot.entries_sum_micro == 0 and len(snapshot.tasks) > len(before)


def any_finished(server: ServerProcess, tasks: list[tuple[str, str]]) -> bool:
    return any(Api(server.url, token).task(task_id).get("finished_at") for token, task_id in tasks)


@pytest.mark.long  # tests/server/backup/ has the same without processes
def test_an_encrypted_file_from_an_object_store_has_all_that_is_needed(
    tmp_path: Path, databases: Databases, stack: ExitStack
) -> None:
    first, second = (
        stack.enter_context(database()) for database in (databases.fresh, databases.empty)
    )
    source_variables = variables(tmp_path / "one", first)
    with ServerProcess(tmp_path / "one", 0, **source_variables) as server:
        client = server.client()
        task_id = submit_with_file(client, b"weights" * 50_000)
        file = tmp_path / "pool.potluck"
        backup = admin("backup", file, "--data-dir", tmp_path / "one", **source_variables, **SECRET)
        assert backup["is_encrypted"] and backup["has_encryption_key"] and backup["blobs"] == 1
    assert b"weights" not in file.read_bytes() and task_id.encode() not in file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0
    target_variables = variables(tmp_path / "two", second)
    wrong = {**target_variables, "POTLUCK_BACKUP_PASSPHRASE": "something else"}
    target = ("--data-dir", tmp_path / "two")
    assert admin("restore", file, *target, **wrong)["error"]["code"] == "bad_settings"
    with shortened(file):
        refused_restore = admin("restore", file, *target, **target_variables, **SECRET)
        assert refused_restore["error"]["code"] == "backup_damaged"
    restored = admin("restore", file, *target, **target_variables, **SECRET)
    assert restored["restored_encryption_key"] and restored["previous_schema"] is None
    refused_restore = admin("restore", file, *target, **target_variables, **SECRET)
    assert refused_restore["error"]["code"] == "conflict", "the database is not empty"
    forced = admin("restore", file, "--force", *target, **target_variables, **SECRET)
    assert forced["previous_schema"].startswith("replaced_")
    with ServerProcess(tmp_path / "two", 0, **target_variables) as server:
        client = server.client()
        assert client.task(task_id)["state"] == "queued"
        data = client.call(
            "GET", f"/v1/blobs/{hashlib.sha256(b'weights' * 50_000).hexdigest()}"
        ).data
        assert data == b"weights" * 50_000
        assert submit_with_file(client, b"more")
        with ProviderProcess(tmp_path / "node", server, **FAST_PROVIDER):
            assert client.finished(task_id)["state"] == "succeeded"
    snapshot = asyncio.run(take(second))
    assert check_invariants(snapshot) == [] and snapshot.entries_sum_micro == 0


def variables(directory: Path, url: str) -> dict[str, str]:
    """A database of the operator, and an object store."""
    store = directory / "store"
    store.mkdir(parents=True, exist_ok=True)
    return {
        "POTLUCK_DATABASE_URL": url,
        "POTLUCK_BLOBS_URL": f"file://{store}",
        "POTLUCK_ENCRYPTION_KEY_FILE": str(directory / "server" / "encryption-key"),
    }


@contextmanager
def shortened(file: Path) -> Iterator[None]:
    original = file.read_bytes()
    file.write_bytes(original[: len(original) // 2])
    try:
        yield
    finally:
        file.write_bytes(original)


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(("files", "manifest"), id="two points"),
        pytest.param(
            ("tables", "files", "verifying", "manifest"), marks=pytest.mark.long, id="all"
        ),
    ],
)
def test_a_killed_backup_leaves_the_last_good_one(
    points: Sequence[str], tmp_path: Path, databases: Databases
) -> None:
    """While tables are read, while files are copied, while all is verified, and when all is written
    and not yet renamed. A point that passed too quickly is a kill at a later one."""
    backups = tmp_path / "backups"
    signs: dict[str, Callable[[], bool]] = {
        "tables": lambda: has_file(backups, "unfinished/*/database/*"),
        "files": lambda: len(list(backups.glob("blobs/objects/*/*"))) > copied + 3,
        "verifying": lambda: has_file(backups, "unfinished/*/blobs.json.gz"),
        "manifest": lambda: has_file(backups, "unfinished/*/manifest.json"),
    }
    command = ("backup", backups, "--data-dir", tmp_path / "one")
    with (
        databases.fresh() as url,
        databases.empty() as other,
        ServerProcess(tmp_path / "one", POTLUCK_DATABASE_URL=url) as server,
    ):
        environment = {"POTLUCK_DATABASE_URL": url}
        uploaded(server, 20)
        inside = tmp_path / "one" / "server" / "blobs" / "objects" / "mine"
        refused = admin("backup", inside, *command[2:], **environment)
        assert "data directory" in refused["error"]["detail"] and not inside.exists()
        good = admin(*command, **environment)["name"]
        for point in points:
            uploaded(server, 20)
            copied = len(list(backups.glob("blobs/objects/*/*")))
            killed_at(signs[point], potluck("admin", *command), environment)
            names = DirectoryBackups.open(backups, None).names()
            assert names[0] == good
            asyncio.run(read_all(backups, names[-1]))
        target = ("--data-dir", tmp_path / "restored", "--database-url", other)
        assert admin("restore", backups, *target, "--backup", good)["blobs"] == 20
        backup = admin(*command, "--keep", "1", **environment)
        assert backup["missing_blobs"] == 0 and backup["blobs"] == 20 * (1 + len(points))
        assert DirectoryBackups.open(backups, None).names() == [backup["name"]]
        assert not (backups / "unfinished").exists(), "what was left is gone"


async def read_all(path: Path, name: str) -> None:
    """Every part of the backup is as it was written."""
    place = DirectoryBackups.open(path, None)
    with place.read(name) as reader:
        manifest = decode_manifest(await join(reader.read(MANIFEST)))
        for table in manifest.tables:
            await verify_member(reader, table.member, table.sha256, table.size_bytes)
        blobs = await place.blobs_of(name)
        assert len(blobs) == manifest.blobs
        for blob in blobs:
            await verify_member(reader, blob_member(blob.key), blob.sha256, blob.size_bytes)


def uploaded(server: ServerProcess, count: int) -> None:
    for _ in range(count):
        submit_with_file(server.client(), os.urandom(100_000))


def killed_at(
    condition: Callable[[], bool], command: list[str], environment: dict[str, str]
) -> None:
    """Killed at this point, or, if that passed too quickly, later."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while process.poll() is None and not condition():
            pass
    finally:
        process.kill()
        process.wait(30)


def has_file(folder: Path, pattern: str) -> bool:
    try:
        return any(folder.glob(pattern))
    except FileNotFoundError:  # a folder was removed while it was searched
        return False
