"""Each alert of the rules, by really causing its fault; the table says how soon it fired.

Seconds stand for the minutes of the rules, as `hurried` says; what fires and why is the same.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from potluck.model.alert import AlertName
from tests.case_counts import counting_cases
from tests.deploy.monitored_pool import Watched
from tests.deploy.test_rules import OBJECTIVES
from tests.end_to_end.reward_faults import EPOCH_FREE, EPOCH_STUCK, PAYOUT_LATE, PAYOUT_PAID
from tests.processes import await_true
from tests.security.people import TASK, Person

pytestmark = pytest.mark.long

# What is done again and again while the fault lasts, if the fault shows only in what is asked for.
Provoke = Callable[[], object]
Fault = Callable[[Watched, Path], AbstractContextManager[Provoke | None]]


def sql(pool: Watched, statement: str) -> None:
    async def execute() -> None:
        connection = await asyncpg.connect(pool.database_url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(execute())


@contextmanager
def changed(
    pool: Watched, cause: str, mend: str, provoke: Provoke | None = None
) -> Iterator[Provoke | None]:
    sql(pool, cause)
    try:
        yield provoke
    finally:
        sql(pool, mend)


def renamed(
    pool: Watched, table: str, provoke: Provoke | None
) -> AbstractContextManager[Provoke | None]:
    rename_away, rename_back = (
        f"ALTER TABLE {table} RENAME TO away",
        f"ALTER TABLE away RENAME TO {table}",
    )
    return changed(pool, rename_away, rename_back, provoke)


def locked(pool: Watched, table: str, call: Provoke) -> Provoke:
    """The call, while somebody else has the table for more than a second."""

    def provoke() -> None:
        holder = threading.Thread(
            target=sql, args=(pool, f"BEGIN; LOCK TABLE {table}; SELECT pg_sleep(1.5); COMMIT")
        )
        holder.start()
        time.sleep(0.2)
        call()
        holder.join()

    return provoke


class Machine:
    """A node whose devices are as the test says; it sends heartbeats until it leaves."""

    def __init__(self, pool: Watched) -> None:
        self.person = Person(pool.server, "a machine")
        self.api = pool.server.client(self.person.node_token())
        self.status = {"uuid": self.person.uuid}
        self.held: list[dict[str, str]] = []
        self._is_over = threading.Event()
        self._beating = threading.Thread(target=self._beat)
        self._beating.start()

    def _beat(self) -> None:
        while not self._is_over.wait(0.2):
            self.call("heartbeats", {"held": self.held, "devices": [self.status]})

    def call(self, path: str, value: object) -> dict[str, list[dict[str, str]]]:
        response: dict[str, list[dict[str, str]]] = self.api.post(
            f"/v1/nodes/{self.person.node_id}/{path}", value
        )
        return response

    def close(self) -> None:
        self._is_over.set()
        self._beating.join()
        response = self.api.call("POST", f"/v1/nodes/{self.person.node_id}/leave", b"{}")
        assert response.status == 204, response.data


@contextmanager
def machine(pool: Watched, **status: object) -> Iterator[None]:
    """One that is well afterwards, before it leaves."""
    node = Machine(pool)
    try:
        node.status |= status  # type: ignore[arg-type]
        yield None
        node.status = {"uuid": node.person.uuid}
        time.sleep(1)
    finally:
        node.close()


@contextmanager
def late_start(pool: Watched) -> Iterator[None]:
    """A node takes a task at once, and starts it much later."""
    node = Machine(pool)
    try:
        node.call("leases", {"wait_seconds": 0})  # so that it fits at once
        time.sleep(1)
        requirements = {"device_kind": "gpu", "memory_bytes": 2**25}
        task = pool.server.client().post("/v1/tasks", {**TASK, "requirements": requirements})
        poll = partial(node.call, "leases", {"wait_seconds": 2})
        (grant,) = await_true(lambda: poll()["grants"], f"it is granted {task}", 10)
        lease = {"attempt_id": grant["attempt_id"], "token": grant["token"]}
        node.held = [lease]
        time.sleep(10.5)
        node.call("reports", {"reports": [{"event": "started", "lease": lease}]})
        yield None
        finished = {"event": "finished", "lease": lease, "reason": "completed", "exit_code": 0}
        node.call("reports", {"reports": [finished]})
    finally:
        node.close()


@contextmanager
def killed_provider(pool: Watched) -> Iterator[None]:
    pool.provider.kill()
    yield None
    pool.start_provider()


@contextmanager
def killed_server(pool: Watched) -> Iterator[None]:
    pool.server.kill()
    yield None
    pool.start_server()


@contextmanager
def full_disk(pool: Watched) -> Iterator[None]:
    """Whatever is free is too little."""
    pool.server.stop()
    pool.start_server(POTLUCK_LOW_DISK_BYTES=str(2**60))
    yield None
    pool.server.stop()
    pool.start_server()


@contextmanager
def old_certificate(pool: Watched, directory: Path) -> Iterator[None]:
    certificate, key = directory / "cert.pem", directory / "key.pem"
    write_certificate(certificate, key, timedelta(days=5))
    with pool.start_tls_server(certificate, key):
        yield None
        write_certificate(certificate, key, timedelta(days=100))
        pool.receiver.await_state("CertificateExpiring", "resolved")


def write_certificate(certificate: Path, key: Path, life: timedelta) -> None:
    secret, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    builder = x509.CertificateBuilder(name, name, secret.public_key(), x509.random_serial_number())
    signed = (
        builder.not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + life)
        .sign(secret, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key.touch(0o600)
    key.write_bytes(secret.private_bytes(pem, *plain))
    certificate.write_bytes(signed.public_bytes(pem))


def flapping(pool: Watched) -> Provoke:
    return lambda: sql(pool, "UPDATE leader SET holder = '', expires_at = now()")


def get(pool: Watched, path: str) -> Provoke:
    return lambda: pool.server.client().call("GET", path)


def submit(pool: Watched) -> Provoke:
    return lambda: pool.server.client().post("/v1/tasks", TASK)


# How each is caused, in words and in deed.
_CONTRACT = """
INSERT INTO chain_contracts (chain_id, contract, token, token_units, credit_micro, scanned_block,
    halted_at, halted_because, waits_since, waits_because)
VALUES (31337, '0x1', '0x', 1, 1, 1, {})
"""
_NO_CONTRACT = "DELETE FROM chain_contracts"

FAULTS: dict[str, tuple[str, Fault]] = {
    "PayoutsStopped": (
        "a contract is halted by SQL",
        lambda pool, _: changed(
            pool, _CONTRACT.format("now(), 'A reorganisation.', NULL, NULL"), _NO_CONTRACT
        ),
    ),
    "PayoutStuck": (
        "a contract waits since yesterday, by SQL",
        lambda pool, _: changed(
            pool, _CONTRACT.format("NULL, NULL, now() - interval '1 day', 'paused'"), _NO_CONTRACT
        ),
    ),
    "NodeLost": ("kill -9 of a provider", lambda pool, _: killed_provider(pool)),
    "DeviceSick": (
        "a node reports a lost card",
        lambda pool, _: machine(pool, availability="sick", health="lost", why="It is lost."),
    ),
    "DeviceHot": ("a node reports 96 °C", lambda pool, _: machine(pool, temperature_celsius=96.0)),
    "QueueStalled": (
        "a table that the scheduler reads is renamed",
        lambda pool, _: renamed(pool, "dependencies", None),
    ),
    "ErrorRateHigh": (
        "a table that requests read is renamed",
        lambda pool, _: renamed(pool, "webhooks", get(pool, "/v1/webhooks")),
    ),
    "LatencyHigh": (
        "a table is locked for 1.5 s, again and again",
        lambda pool, _: nullcontext(locked(pool, "invites", get(pool, "/v1/invites"))),
    ),
    "AcknowledgementBudgetBurning": (
        "the accounts are locked for 1.5 s during submissions",
        lambda pool, _: nullcontext(locked(pool, "accounts", submit(pool))),
    ),
    "StartBudgetBurning": (
        "a node starts a task 10.5 s after it was submitted",
        lambda pool, _: late_start(pool),
    ),
    "LedgerImbalance": (
        "a balance is edited",
        lambda pool, _: changed(
            pool,
            "UPDATE balances SET available_micro = available_micro + 1",
            "UPDATE balances SET available_micro = available_micro - 1",
        ),
    ),
    "InvariantViolated": (
        "the used cores of nodes are edited",
        lambda pool, _: changed(
            pool,
            "UPDATE nodes SET used_cores = used_cores + 1 WHERE state = 'online'",
            "UPDATE nodes SET used_cores = used_cores - 1 WHERE state = 'online'",
        ),
    ),
    "LeaderFlapping": (
        "the leader's row is taken from it, again and again",
        lambda pool, _: nullcontext(flapping(pool)),
    ),
    "DiskLow": ("more free space is demanded than there is", lambda pool, _: full_disk(pool)),
    "BackupTooOld": (
        "the only backup is two days old",
        lambda pool, _: changed(
            pool,
            "UPDATE backups SET finished_at = now() - interval '2 days'",
            "UPDATE backups SET finished_at = now()",
        ),
    ),
    "EpochLate": (
        "a trigger keeps an epoch from being closed",
        lambda pool, _: changed(pool, EPOCH_STUCK, EPOCH_FREE),
    ),
    "PayoutLate": (
        "a reward was set aside a month ago",
        lambda pool, _: changed(pool, PAYOUT_LATE, PAYOUT_PAID),
    ),
    "NoLeader": ("kill -9 of the only server", lambda pool, _: killed_server(pool)),
    "CertificateExpiring": ("a certificate of five days", old_certificate),
}

_BACKUP = """
INSERT INTO backups (id, finished_at, guarded_until, is_encrypted)
VALUES ('backup of today', now(), now(), false)
"""


@pytest.mark.timeout(900)
def test_each_alert_is_fired_by_its_fault_and_resolves(
    watched: Watched, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    assert set(FAULTS) == set(AlertName) | OBJECTIVES
    sql(watched, _BACKUP)
    with counting_cases(request) as tally:
        for name, (cause, fault) in FAULTS.items():
            with tally("alerts that fire and resolve", name):
                seconds = fire_and_resolve(watched, name, fault(watched, tmp_path))
                tally.note(f"{name}: {cause}; fired after {seconds:.1f} s, and resolved")


def fire_and_resolve(
    pool: Watched, name: str, fault: AbstractContextManager[Provoke | None]
) -> float:
    if pool.receiver.states(name):  # an earlier fault had more than one effect
        pool.receiver.await_state(name, "resolved")
        pool.receiver.forget(name)
    started = time.monotonic()
    with fault as provoke:
        while provoke is not None and not pool.receiver.states(name):
            provoke()
            assert time.monotonic() - started < 60, f"{name} does not fire"
        pool.receiver.await_state(name, "firing")
        seconds = time.monotonic() - started
    pool.receiver.await_state(name, "resolved")
    return seconds
