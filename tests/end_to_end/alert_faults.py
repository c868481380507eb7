"""Real faults, one for each alert, and how each is mended; for tests and `python -m bench.alerts`.

The pool is one server, whose data directory is a small disk of its own, and one provider with a
stubbed graphics card.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct

from tests.alert_receiver import AlertReceiver, ReceivedAlert, receiving
from tests.end_to_end.certificates import write_certificate
from tests.end_to_end.reward_faults import EPOCH_FREE, EPOCH_STUCK, PAYOUT_LATE, PAYOUT_PAID
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true, free_port
from tests.stubs.nvml import GIB, Card, NvmlRig

CARD = "GPU-alerts"
# Tenths of seconds, so that a fault is told in a moment.
QUICK = {
    "POTLUCK_HEALTH_SECONDS": "0.1",
    "POTLUCK_STORAGE_CHECK_SECONDS": "0.1",
    "POTLUCK_WATCH_SECONDS": "0.3",
    "POTLUCK_LEDGER_CHECK_SECONDS": "0.1",
    "POTLUCK_LEADER_SECONDS": "1",
    "POTLUCK_LOW_DISK_BYTES": "1000000",
    "POTLUCK_TLS_RELOAD_SECONDS": "0.2",
    "POTLUCK_ALERT_SECONDS": "0.2",
    "POTLUCK_ALERT_GROUP_SECONDS": "0.3",
    "POTLUCK_ALERT_FOR_SECONDS": (
        "NodeLost=0.5,DeviceSick=0,DeviceHot=0,QueueStalled=0.5,NoLeader=0.5,"
        "ErrorRateHigh=0,LatencyHigh=0,DiskLow=0,EpochLate=0"
    ),
    "POTLUCK_ALERT_WINDOW_SECONDS": "2",
    "POTLUCK_ALERT_LEAST_REQUESTS": "5",
    "POTLUCK_ALERT_LATENCY_SECONDS": "0.5",
    "POTLUCK_ALERT_LEADER_TERMS": "2",
    "POTLUCK_ALERT_BACKUP_SECONDS": "86400",
    "POTLUCK_ALERT_LEADER_SECONDS": "6",
    "POTLUCK_EPOCH_POLL_SECONDS": "0.2",
}
_CARDS = {
    **FAST_PROVIDER,
    "POTLUCK_PROVIDER_NAME": "attic",
    "POTLUCK_PROVIDER_SAMPLE_SECONDS": "0.1",
    "POTLUCK_PROVIDER_DETECT_SECONDS": "20",
    "OCL_ICD_VENDORS": "/nonexistent",
    "POTLUCK_PROVIDER_UNSAFE_NO_SANDBOX": "true",
}


_BACKUP = """
INSERT INTO backups (id, finished_at, guarded_until, is_encrypted)
VALUES ('backup_01jd0000000000000000000000', now(), now(), false)
"""

_CONTRACT = """
INSERT INTO chain_contracts (chain_id, contract, token, token_units, credit_micro, scanned_block,
    halted_at, halted_because, waits_since, waits_because)
VALUES (31337, '0x0000000000000000000000000000000000000001', '0x', 1, 1, 1, {})
"""


class SmallDiskServer(ServerProcess):
    """On a machine whose data directory is a disk of its own, of a few megabytes."""

    def __init__(self, directory: Path, **environment: str) -> None:
        (directory / "server").mkdir(parents=True, exist_ok=True)
        mount = f"mount -t tmpfs -o size=8m,mode=700 tmpfs '{directory}/server' && exec \"$@\""
        self.prefix = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh")
        super().__init__(directory, 0, **environment)

    @property
    def disk(self) -> Path:
        """As the process sees it: the mount is its own."""
        return Path(f"/proc/{self.process.pid}/root{self.directory}/server")


class WatchedPool:
    """A server, a provider, and where its alerts arrive."""

    def __init__(self, directory: Path, database_url: str, stack: ExitStack) -> None:
        self.directory = directory
        self.database_url = database_url
        self.receiver: AlertReceiver = stack.enter_context(receiving())
        self.shared = {
            **QUICK,
            "POTLUCK_DATABASE_URL": database_url,
            "POTLUCK_ALERT_URLS": self.receiver.url,
        }
        self.sql(_BACKUP, "SELECT 1")
        self.server = stack.enter_context(SmallDiskServer(directory, **self.shared))
        self.client = self.server.client()
        self.rig = NvmlRig(directory / "box")
        self.rig.add(Card(CARD, "NVIDIA L4", 24 * GIB))
        self.provider = self._provide()
        stack.callback(lambda: self.provider.__exit__())

    def _provide(self) -> ProviderProcess:
        environment = {**_CARDS, **self.rig.environment}
        return ProviderProcess(self.directory / "box", self.server, **environment)

    def provide_again(self) -> None:
        self.provider.__exit__()
        self.provider = self._provide()

    def sql(self, *statements: str) -> Any:
        async def run() -> Any:
            connection = await asyncpg.connect(self.database_url)
            try:
                for statement in statements[:-1]:
                    await connection.execute(statement)
                return await connection.fetchval(statements[-1])
            finally:
                await connection.close()

        return asyncio.run(run())

    @contextmanager
    def holding(self, statement: str) -> Iterator[None]:
        """A transaction that does not end meanwhile."""
        ready, released = threading.Event(), threading.Event()

        async def hold() -> None:
            connection = await asyncpg.connect(self.database_url)
            try:
                async with connection.transaction():
                    await connection.execute(statement)
                    ready.set()
                    await asyncio.to_thread(released.wait, 60)
            finally:
                await connection.close()

        thread = threading.Thread(target=asyncio.run, args=(hold(),))
        thread.start()
        try:
            assert ready.wait(30)
            yield
        finally:
            released.set()
            thread.join()


@contextmanager
def lost_node(pool: WatchedPool) -> Iterator[None]:
    pool.provider.kill()
    try:
        yield
    finally:
        pool.provide_again()


@contextmanager
def sick_device(pool: WatchedPool) -> Iterator[None]:
    pool.rig.fall_off(CARD)
    try:
        yield
    finally:
        pool.rig.come_back(CARD)


@contextmanager
def hot_device(pool: WatchedPool) -> Iterator[None]:
    pool.rig.say(CARD, temperature=97)
    try:
        yield
    finally:
        pool.rig.say(CARD, temperature=45)


@contextmanager
def stalled_queue(pool: WatchedPool) -> Iterator[None]:
    """The only machine leaves, and a task waits."""
    pool.provider.stop()
    task_id = pool.client.submit("print(1)")
    try:
        yield
    finally:
        pool.client.post(f"/v1/tasks/{task_id}/cancel", None)
        pool.provide_again()


@contextmanager
def no_leader(pool: WatchedPool) -> Iterator[None]:
    """A transaction that hangs holds the leader's row, so that nobody can renew or take it."""
    with pool.holding("SELECT term FROM leader FOR UPDATE"):
        yield


@contextmanager
def failing_requests(pool: WatchedPool) -> Iterator[None]:
    pool.sql("ALTER TABLE invites RENAME TO hidden_invites", "SELECT 1")
    try:
        with _asking(pool, "/v1/invites", 500):
            yield
    finally:
        pool.sql("ALTER TABLE hidden_invites RENAME TO invites", "SELECT 1")


@contextmanager
def slow_requests(pool: WatchedPool) -> Iterator[None]:
    """A lock that another program holds for most of the time."""
    finished = threading.Event()

    def hold_again_and_again() -> None:
        while not finished.is_set():
            with pool.holding("LOCK TABLE invites IN ACCESS EXCLUSIVE MODE"):
                finished.wait(1)

    thread = threading.Thread(target=hold_again_and_again)
    thread.start()
    try:
        with ExitStack() as stack:
            for _ in range(8):
                stack.enter_context(_asking(pool, "/v1/invites", 200))
            yield
            finished.set()
    finally:
        finished.set()
        thread.join()


@contextmanager
def _asking(pool: WatchedPool, path: str, status: int) -> Iterator[None]:
    """Asks again and again."""
    finished = threading.Event()
    client, statuses = pool.server.client(), set()

    def ask() -> None:
        while not finished.is_set():
            statuses.add(client.call("GET", path).status)
            finished.wait(0.02)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
    assert statuses == {status}


@contextmanager
def full_disk(pool: WatchedPool) -> Iterator[None]:
    filler = pool.server.disk / "filler"
    with filler.open("ab", buffering=0) as file:
        while os.statvfs(pool.server.disk).f_bavail * 4096 > 500_000:
            file.write(bytes(65_536))
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def old_certificate(pool: WatchedPool) -> Iterator[None]:
    """Of a second instance, which serves TLS."""
    files = pool.directory / "certificate.pem", pool.directory / "key.pem"
    write_certificate(*files, datetime.now(UTC) + timedelta(days=5))
    names = ("POTLUCK_TLS_CERT", "POTLUCK_TLS_KEY")
    tls = dict(zip(names, map(str, files), strict=True))
    place = pool.directory / "second"
    with ServerProcess(place, free_port(), **pool.shared, **tls):
        yield
        write_certificate(*files, datetime.now(UTC) + timedelta(days=300))
        pool.receiver.wait_for("CertificateExpiring", kind="success")


@contextmanager
def wrong_balance(pool: WatchedPool) -> Iterator[None]:
    change = "UPDATE balances SET available_micro = available_micro {} 7"
    pool.sql(change.format("+"), "SELECT 1")
    try:
        yield
    finally:
        pool.sql(change.format("-"), "SELECT 1")


@contextmanager
def wrong_capacity(pool: WatchedPool) -> Iterator[None]:
    change = "UPDATE nodes SET used_cores = used_cores {} 1 WHERE state = 'online'"
    pool.sql(change.format("+"), "SELECT 1")
    try:
        yield
    finally:
        pool.sql(change.format("-"), "SELECT 1")


@contextmanager
def old_backup(pool: WatchedPool) -> Iterator[None]:
    age = "UPDATE backups SET finished_at = now() - interval '{}'"
    pool.sql(age.format("2 days"), "SELECT 1")
    try:
        yield
    finally:
        pool.sql(age.format("1 hour"), "SELECT 1")


@contextmanager
def late_epoch(pool: WatchedPool) -> Iterator[None]:
    pool.sql(EPOCH_STUCK, "SELECT 1")
    try:
        yield
    finally:
        pool.sql(EPOCH_FREE, "SELECT 1")


@contextmanager
def late_payout(pool: WatchedPool) -> Iterator[None]:
    pool.sql(PAYOUT_LATE, "SELECT 1")
    try:
        yield
    finally:
        pool.sql(PAYOUT_PAID, "SELECT 1")


@contextmanager
def stopped_contract(pool: WatchedPool, halted: str) -> Iterator[None]:
    pool.sql(_CONTRACT.format(halted), "SELECT 1")
    try:
        yield
    finally:
        pool.sql("DELETE FROM chain_contracts", "SELECT 1")


@contextmanager
def flapping_leader(pool: WatchedPool) -> Iterator[None]:
    """Stopped for longer than its term, three times; it leads again each time."""
    for _ in range(3):
        before = pool.sql("SELECT term FROM leader")
        pool.server.process.send_signal(signal.SIGSTOP)
        try:
            await_true(lambda: pool.sql("SELECT expires_at < now() FROM leader"), "its term ends")
        finally:
            pool.server.process.send_signal(signal.SIGCONT)
        await_true(partial(_leads_again, pool, before), "it leads again")
    yield


def _leads_again(pool: WatchedPool, before: int) -> bool:
    return bool(pool.sql("SELECT term FROM leader") > before)


Fault = Callable[[WatchedPool], AbstractContextManager[None]]


class CausedFault(Struct, frozen=True):
    how: str
    cause: Fault


FAULTS: dict[str, CausedFault] = {
    "NodeLost": CausedFault("`kill -9` of a provider", lost_node),
    "DeviceSick": CausedFault("a card falls off the bus (NVML stub)", sick_device),
    "DeviceHot": CausedFault("a card reports 97 °C (NVML stub)", hot_device),
    "QueueStalled": CausedFault("the only node leaves, and a task waits", stalled_queue),
    "NoLeader": CausedFault("a hanging transaction holds the leader's row", no_leader),
    "ErrorRateHigh": CausedFault("a table is missing, so that requests fail", failing_requests),
    "LatencyHigh": CausedFault("a table is locked for a second at a time", slow_requests),
    "DiskLow": CausedFault("the data directory's disk (a tmpfs) is filled", full_disk),
    "CertificateExpiring": CausedFault(
        "a new instance has a certificate with five days left; includes its start", old_certificate
    ),
    "LedgerImbalance": CausedFault("a balance is changed by SQL", wrong_balance),
    "InvariantViolated": CausedFault("a node's used cores are changed by SQL", wrong_capacity),
    "BackupTooOld": CausedFault("the last backup is made two days older by SQL", old_backup),
    "EpochLate": CausedFault("a trigger keeps an epoch from being closed", late_epoch),
    "PayoutLate": CausedFault("a reward was set aside a month ago by SQL", late_payout),
    "LeaderFlapping": CausedFault("the leader is stopped three times (SIGSTOP)", flapping_leader),
    "PayoutsStopped": CausedFault(
        "a contract is halted by SQL; a flow test has a real reorganisation",
        partial(stopped_contract, halted="now(), 'A reorganisation.', NULL, NULL"),
    ),
    "PayoutStuck": CausedFault(
        "a contract waits since yesterday, by SQL",
        partial(stopped_contract, halted="NULL, NULL, now() - interval '1 day', 'it is paused'"),
    ),
}


class Fired(Struct, frozen=True):
    seconds: float  # from the fault to the message
    message: ReceivedAlert
    resolved: ReceivedAlert


def cause(pool: WatchedPool, name: str) -> Fired:
    """Causes the fault, waits for its message, mends it, and waits for that message."""
    pool.receiver.received.clear()
    started = time.monotonic()
    with FAULTS[name].cause(pool):
        message = pool.receiver.wait_for(name)
    resolved = pool.receiver.wait_for(name, kind="success")
    return Fired(message.at - started, message, resolved)
