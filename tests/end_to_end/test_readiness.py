"""`/readyz`: what works, and 503 only if requests would fail."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from tests.databases import Databases
from tests.processes import ServerProcess, WholeServerProcess, await_true
from tests.redis_server import RedisServer

OFTEN = {"POTLUCK_HEALTH_SECONDS": "0.1", "POTLUCK_STORAGE_CHECK_SECONDS": "0.1"}
PARTS = {*("database", "migrations", "leader", "blobs", "disk", "live", "scheduler", "clock")}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def ill(server: ServerProcess) -> dict[str, str]:
    """The parts that do not work."""
    parts: dict[str, str] = server.client("").get("/readyz")["parts"]
    return {part: state for part, state in parts.items() if state != "ok"}


def await_ill(server: ServerProcess, *parts: str) -> dict[str, str]:
    await_true(lambda: {*ill(server)} == {*parts}, f"exactly {parts or 'nothing'} does not work")
    return ill(server)


def logged(server: ServerProcess, part: str) -> list[str]:
    """The states of a part that the log tells, in order."""
    lines = (server.directory / "server.log").read_text().splitlines()
    entries = [json.loads(line) for line in lines if line.startswith("{")]
    return [entry.get("state", "ok") for entry in entries if entry.get("part") == part]


def test_every_part_is_public_without_secrets(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(ServerProcess(tmp_path, 0, **OFTEN))
    await_ill(server)
    response = server.client("").call("GET", "/readyz")
    readiness = response.json()
    assert (response.status, readiness["status"], {*readiness["parts"]}) == (200, "ok", PARTS)
    assert readiness["leader"] == readiness["instance"] and len(readiness["instance"]) == 16
    assert readiness["free_gib"] >= 1 and abs(readiness["clock_skew_seconds"]) < 1
    for secret in (str(tmp_path), str(server.port), "127.0.0.1", "postgresql", "potluck-test"):
        assert secret not in response.data.decode()


def test_without_redis_it_is_degraded_and_requests_work(
    databases: Databases, own_redis: RedisServer, tmp_path: Path, stack: ExitStack
) -> None:
    url = stack.enter_context(databases.fresh())
    shared = {"POTLUCK_DATABASE_URL": url, "POTLUCK_REDIS_URL": own_redis.url, **OFTEN}
    server = stack.enter_context(ServerProcess(tmp_path, 0, **shared))
    await_ill(server)
    own_redis.kill()
    assert await_ill(server, "live", "scheduler")["live"] == "does not answer"
    response = server.client("").call("GET", "/readyz")
    assert (response.status, response.json()["status"]) == (200, "degraded")
    assert server.client().task(server.client().submit("print(1)"))["state"] == "queued"
    own_redis.start()
    await_ill(server)
    await_true(lambda: logged(server, "live") == ["does not answer", "ok"], "both are logged")


def test_without_the_database_the_server_is_not_ready_until_it_is_back(
    tmp_path: Path, stack: ExitStack
) -> None:
    """Stopped and not killed: it accepts connections, and says nothing."""
    server = stack.enter_context(WholeServerProcess(tmp_path, 0, **OFTEN))
    await_ill(server)
    (pid_file,) = (tmp_path / "server" / "postgres").rglob("postmaster.pid")
    postmaster = psutil.Process(int(pid_file.read_text().split()[0]))
    with frozen(postmaster):
        await_true(lambda: server.client("").call("GET", "/readyz").status == 503, "it is told")
        response = server.client("").call("GET", "/readyz")
        assert (response.headers["Retry-After"], response.json()["status"]) == ("1", "not ready")
        assert response.json()["parts"]["database"] == "does not answer"
        assert response.json()["parts"]["leader"] == "unknown"
    await_ill(server)


@contextmanager
def frozen(parent: psutil.Process) -> Iterator[None]:
    """With its children, of which a stopped one makes no more."""
    stopped = [parent]
    try:
        parent.suspend()
        await_true(lambda: parent.status() == psutil.STATUS_STOPPED, "it is stopped")
        stopped += parent.children()
        for child in stopped[1:]:
            child.suspend()
        yield
    finally:
        for process in stopped:
            process.resume()


def test_asking_costs_the_database_nothing(
    databases: Databases, tmp_path: Path, stack: ExitStack
) -> None:
    """One check an hour: whatever is asked meanwhile is answered from it."""
    url = stack.enter_context(databases.fresh())
    variables = {"POTLUCK_DATABASE_URL": url, "POTLUCK_HEALTH_SECONDS": "3600"}
    server = stack.enter_context(ServerProcess(tmp_path, 0, **variables))
    execute(url, "ALTER TABLE schema_version RENAME TO hidden")
    for _ in range(20):
        assert server.client("").call("GET", "/readyz").status == 200


def test_a_schema_of_another_version_is_shown(
    databases: Databases, tmp_path: Path, stack: ExitStack
) -> None:
    url = stack.enter_context(databases.fresh())
    server = stack.enter_context(ServerProcess(tmp_path, 0, POTLUCK_DATABASE_URL=url, **OFTEN))
    # Within a minor version, as `tests/store/test_upgrade.py` says, the server works with it.
    execute(url, "UPDATE schema_version SET version_num = '9999'")
    execute(url, "UPDATE applied_migrations SET compatible_since = '9999' WHERE number = '0018'")
    assert "the schema is 9999" in await_ill(server, "migrations")["migrations"]


def test_every_instance_tells_which_one_leads(
    databases: Databases, redis_url: str, tmp_path: Path, stack: ExitStack
) -> None:
    url = stack.enter_context(databases.fresh())
    shared = {"POTLUCK_DATABASE_URL": url, "POTLUCK_REDIS_URL": redis_url, **OFTEN}
    first = stack.enter_context(ServerProcess(tmp_path / "one", 0, **shared))
    await_ill(first)
    second = stack.enter_context(ServerProcess(tmp_path / "two", 0, **shared))
    await_ill(second)
    readiness = [server.client("").get("/readyz") for server in (first, second)]
    assert (
        readiness[0]["leader"]
        == readiness[1]["leader"]
        == readiness[0]["instance"]
        != readiness[1]["instance"]
    )
    first.kill()
    await_true(
        lambda: second.client("").get("/readyz")["leader"] == readiness[1]["instance"],
        "the other one leads, and says so",
    )


def test_a_full_database_disk_is_shown_logged_and_reported(
    databases: Databases, tmp_path: Path, stack: ExitStack
) -> None:
    """PostgreSQL's own error, by a trigger: the leader's row cannot be written, nor a task."""
    url = stack.enter_context(databases.fresh())
    server = stack.enter_context(ServerProcess(tmp_path, 0, POTLUCK_DATABASE_URL=url, **OFTEN))
    client = server.client()
    await_ill(server)
    execute(
        url,
        """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$""",
    )
    for table in ("leader", "tasks"):
        execute(
            url,
            f"CREATE TRIGGER no_space BEFORE INSERT OR UPDATE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
    await_true(lambda: ill(server).get("disk") == "the database's disk is full", "it is shown")
    spec = {"kind": "script", "filename": "script.py", "source": "print(1)"}
    response = client.call("POST", "/v1/tasks", json.dumps({"spec": spec}).encode())
    assert (response.status, response.headers["Retry-After"]) == (503, "10")
    assert "disk" in response.json()["detail"] and client.call("GET", "/v1/me").status == 200
    assert server.client("").call("GET", "/readyz").status == 200, "what reads still works"
    await_true(lambda: "the database's disk is full" in logged(server, "disk"), "it is logged")


class SmallDisk(ServerProcess):
    """On a machine whose data directory is a disk of its own, of a few megabytes."""

    def __init__(self, directory: Path, **environment: str) -> None:
        (directory / "server").mkdir(parents=True)
        mount = f"mount -t tmpfs -o size=8m,mode=700 tmpfs '{directory}/server' && exec \"$@\""
        self.prefix = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh")
        super().__init__(directory, 0, **environment)

    @property
    def disk(self) -> Path:
        """As the process sees it: the mount is its own."""
        return Path(f"/proc/{self.process.pid}/root{self.directory}/server")


def test_a_full_disk_is_shown_and_logged_and_requests_work(
    tmp_path: Path, stack: ExitStack
) -> None:
    server = stack.enter_context(SmallDisk(tmp_path, POTLUCK_LOW_DISK_BYTES="1000000", **OFTEN))
    await_ill(server)
    filler = server.disk / "filler"
    fill(filler, leave_bytes=500_000)
    assert await_ill(server, "disk") == {"disk": "almost full"}
    fill(filler, leave_bytes=0)
    assert "is full" in await_ill(server, "disk", "blobs")["blobs"]
    assert server.client("").call("GET", "/readyz").status == 200
    assert server.client().task(server.client().submit("print(1)"))["state"] == "queued"
    await_true(lambda: "is full" in "".join(logged(server, "blobs")), "it is logged")
    filler.unlink()
    await_ill(server)
    await_true(lambda: logged(server, "blobs")[-1:] == ["ok"], "its end too")


def fill(path: Path, leave_bytes: int) -> None:
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(0, file.tell() - leave_bytes))


def execute(url: str, statement: str) -> Any:
    async def run() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.execute(statement)
        finally:
            await connection.close()

    return asyncio.run(run())
