"""Rewards over HTTP, the client and the commands: what is shown, chosen, signed and paid."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from potluck.consumer import Potluck
from potluck.model.credit import RewardsTo
from potluck.model.error import Forbidden, NotFound
from potluck.wire import routes
from potluck.wire.money.rewards import PaidRow
from potluck.wire.signing.epoch_statement import statement_signer
from tests.cli.command_line import CommandLine
from tests.databases import Databases
from tests.end_to_end.reward_faults import PAYOUT_LATE
from tests.processes import ServerProcess, await_true
from tests.wallets import Wallet

EPOCH = 900_000
PAYEE = Wallet("who is to be paid")


class Paying:
    """A server where five micro-credits are to be paid to a wallet."""

    def __init__(self, server: ServerProcess, database_url: str) -> None:
        self.server = server
        self.database_url = database_url
        self.token = server.sign_in(PAYEE)
        asyncio.run(self._set_aside())

    async def _set_aside(self) -> None:
        """Once the server has opened its first epoch: it opens none where there is one."""
        connection = await asyncpg.connect(self.database_url)
        try:
            while not await connection.fetchval("SELECT count(*) FROM epochs"):
                await asyncio.sleep(0.02)
            await connection.execute(
                PAYOUT_LATE.replace("ORDER BY id LIMIT 1", f"WHERE address = '{PAYEE.address}'")
            )
        finally:
            await connection.close()

    def client(self) -> Potluck:
        return Potluck(self.server.url, self.token)

    def admin(self) -> Potluck:
        return Potluck(self.server.url, self.server.token)


@pytest.fixture(scope="module")
def paying(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Iterator[Paying]:
    quick = {"POTLUCK_EPOCH_SECONDS": "1", "POTLUCK_EPOCH_POLL_SECONDS": "0.2"}
    with databases.fresh() as url:
        directory = tmp_path_factory.mktemp("server")
        with ServerProcess(directory, 0, POTLUCK_DATABASE_URL=url, **quick) as server:
            yield Paying(server, url)


def row(payout_id: str, amount_micro: int) -> PaidRow:
    return PaidRow(payout_id, PAYEE.address, amount_micro)


def test_rewards_and_the_choice_of_a_payout(paying: Paying) -> None:
    with paying.client() as client:
        before = client.rewards.get()
        assert (before.claimable_micro + before.paid_micro, before.earned_micro) == (5, 0)
        assert before.devices == [] and before.epoch is not None
        client.rewards.choose(RewardsTo.PAYOUT)
        assert client.rewards.get(datetime.now(UTC).date()).rewards_to is RewardsTo.PAYOUT
        client.rewards.choose(RewardsTo.CREDITS)


def test_the_server_closes_epochs_by_itself(paying: Paying) -> None:
    with paying.admin() as admin:
        await_true(
            lambda: sum(epoch.number < EPOCH for epoch in admin.admin.epochs()) > 2, "closed"
        )
        closed = [epoch for epoch in admin.admin.epochs() if epoch.number < EPOCH][1:]
    assert [epoch.number for epoch in closed] == list(range(len(closed), 0, -1))
    assert all(epoch.closed_at is not None and epoch.statement_sha256 for epoch in closed)


def test_a_statement_is_signed_with_the_published_address(paying: Paying) -> None:
    with paying.client() as client:
        signed = client.rewards.statement(EPOCH)
        assert signed.signer == client.rewards.signer()
        assert statement_signer(signed.statement, signed.signature) == signed.signer
        (line,) = signed.statement.lines
        assert (line.wallet, line.amount_micro) == (PAYEE.address, 5)
        assert [epoch.number for epoch in client.rewards.epochs()] == [EPOCH]
        with pytest.raises(NotFound):
            client.rewards.statement(EPOCH - 1)
        with pytest.raises(Forbidden):
            client.admin.statement(EPOCH)
    with paying.admin() as admin:
        assert admin.admin.statement(EPOCH).statement.is_of_pool
    stranger = paying.server.client(paying.server.sign_in(Wallet("who earned nothing")))
    response = stranger.call("GET", routes.OWN_STATEMENT.url(epoch=str(EPOCH)))
    assert (response.status, response.json()["code"]) == (404, "not_found")
    assert stranger.get(routes.OWN_EPOCHS.path)["epochs"] == []


def test_payouts_are_marked_once_and_shown_to_their_account(paying: Paying) -> None:
    with paying.admin() as admin, paying.client() as client:
        marked = admin.admin.mark_paid([row("first", 2)])
        assert (marked.recorded, marked.bad) == (1, [])
        assert admin.admin.mark_paid([row("first", 2)]).already_recorded == 1
        outcome = admin.admin.mark_paid([row("first", 3), row("second", 4)])
        assert [bad.row for bad in outcome.bad] == [1, 2] and outcome.recorded == 0
        (claimant,) = admin.admin.claimants()
        assert (claimant.claimable_micro, claimant.paid_micro) == (3, 2)
        (payout,) = client.rewards.payouts()
        assert (payout.id, payout.amount_micro, payout.recorded_by) == ("first", 2, None)
        assert [payout.id for payout in admin.admin.payouts()] == ["first"]
        assert client.rewards.get().paid_micro == 2
    stranger = paying.server.client(paying.server.sign_in(Wallet("who earned nothing")))
    assert stranger.get(routes.OWN_PAYOUTS.path)["payouts"] == []
    response = stranger.call("GET", f"{routes.OWN_PAYOUTS.path}?cursor=first")
    assert response.status == 400, "whether it exists is not for others to know"


BODIES: list[dict[str, Any]] = [
    {},
    {"payouts": []},
    {"payouts": [{"id": "", "wallet": PAYEE.address, "amount_micro": 1}]},
    {"payouts": [{"id": " x", "wallet": PAYEE.address, "amount_micro": 1}]},
    {"payouts": [{"id": "x", "wallet": "0x1", "amount_micro": 1}]},
    {"payouts": [{"id": "x", "wallet": PAYEE.address, "amount_micro": 0}]},
    {"payouts": [{"id": "x", "wallet": PAYEE.address, "amount_micro": -1}]},
    {"payouts": [{"id": "x", "wallet": PAYEE.address, "amount_micro": 2**63}]},
    {"payouts": [{"id": "x", "wallet": PAYEE.address, "amount_micro": "1"}]},
    {"payouts": [{"id": "x", "wallet": PAYEE.address, "amount_micro": 1, "more": 1}]},
]


@pytest.mark.parametrize("body", BODIES)
def test_invalid_marks_are_refused(paying: Paying, body: dict[str, Any]) -> None:
    operator = paying.server.client()
    response = operator.call("POST", routes.MARK_PAID.path, json.dumps(body).encode())
    assert (response.status, response.json()["code"]) == (400, "invalid_input"), body


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/me/rewards?since=yesterday", 400),
        ("/v1/me/rewards?since=1999-12-31", 400),
        ("/v1/me/rewards?until=2026-01-01", 400),
        ("/v1/me/rewards/epochs?cursor=0", 400),
        ("/v1/me/rewards/epochs/0", 404),
        ("/v1/me/rewards/epochs/-1", 404),
        ("/v1/me/rewards/epochs/1e3", 404),
        (f"/v1/me/rewards/epochs/{'9' * 40}", 404),
        ("/v1/payouts?cursor=nothing", 400),
        ("/v1/payouts?cursor=%00", 400),
        ("/v1/claimants?cursor=x", 400),
        ("/v1/epochs/x/statement", 404),
        ("/v1/contract", 404),
        ("/v1/me/rewards/claim", 404),
    ],
)
def test_invalid_queries_are_refused(paying: Paying, path: str, status: int) -> None:
    assert paying.server.client().call("GET", path).status == status


def test_by_commands(paying: Paying, tmp_path: Path) -> None:
    """From the export to the mark, and a statement that is verified offline."""
    admin = CommandLine(tmp_path / "admin", paying.server.url, paying.server.token)
    owner = CommandLine(tmp_path / "owner", paying.server.url, paying.token)
    file = tmp_path / "PAID.csv"
    file.write_bytes(admin.run("admin", "payouts", "export").stdout)
    header, *lines = file.read_text().splitlines()
    assert header == "id,wallet,credits,reference" and len(lines) == 1
    assert admin.run("admin", "payouts", "mark", file).status == 0
    repeated_command = admin.run("admin", "payouts", "mark", file)
    assert (repeated_command.status, repeated_command.stdout) == (
        0,
        b"Recorded 0 payouts of 0 credits; recorded before: 1.\n",
    )
    file.write_text(f"{header}\nnew,{PAYEE.address},1,\nbad,{PAYEE.address},x,\n")
    refused_command = admin.run("admin", "payouts", "mark", file)
    assert refused_command.status != 0 and "line 3" in refused_command.stderr
    file.write_text(f"{header}\nnew,{PAYEE.address},1,\n")
    refused_command = admin.run("admin", "payouts", "mark", file)
    assert (
        refused_command.status != 0
        and "line 2, new: Only 0 credits are claimable" in refused_command.stderr
    )
    assert b"No account is due a payout." in admin.run("admin", "payouts").stdout
    text = owner.run("rewards", "--each").stdout.decode()
    assert "by the operator" in text and "worked, 0 attempts" in text

    statement = tmp_path / "statement.json"
    statement.write_bytes(owner.run("rewards", "statement", str(EPOCH)).stdout)
    signer = owner.run("rewards", "signer").stdout.decode().strip()
    offline = CommandLine(tmp_path / "elsewhere")
    valid = offline.run("rewards", "verify", statement, "--signer", signer)
    assert (valid.status, valid.stdout[:5]) == (0, b"Valid"), valid.stderr
    forged = statement.read_text().replace('"amount_micro":5', '"amount_micro":6')
    assert forged != statement.read_text()
    statement.write_text(forged)
    assert offline.run("rewards", "verify", statement, "--signer", signer).status != 0
    statement.write_text("{}")
    no_statement = offline.run("rewards", "verify", statement, "--signer", signer)
    assert "is not a statement" in no_statement.stderr
    csv = owner.run("rewards", "statement", str(EPOCH), "--csv").stdout.decode()
    assert csv.splitlines()[1].startswith(f"{EPOCH},")


def test_a_statement_of_another_signer_is_refused(paying: Paying, tmp_path: Path) -> None:
    owner = CommandLine(tmp_path / "owner", paying.server.url, paying.token)
    file = tmp_path / "statement.json"
    file.write_bytes(owner.run("rewards", "statement", str(EPOCH)).stdout)
    other = Wallet("somebody else").address
    refused_command = owner.run("rewards", "verify", file, "--signer", other)
    assert refused_command.status != 0 and "was not signed by" in refused_command.stderr


def test_the_earlier_name_of_revoke_works_and_says_so(paying: Paying, tmp_path: Path) -> None:
    admin = CommandLine(tmp_path / "admin", paying.server.url, paying.server.token)
    assert admin.run("admin", "grant", PAYEE.address, "2").status == 0
    revoked = admin.run("admin", "revoke", PAYEE.address, "1", "--reason", "a test")
    assert (revoked.status, revoked.stderr) == (0, "")
    revoke_command = admin.run("admin", "take", PAYEE.address, "1", "--reason", "a test")
    assert revoke_command.status == 0
    assert "`potluck admin take` is called `potluck admin revoke` now." in revoke_command.stderr
    assert "take" not in admin.run("admin", "--help").stdout.decode().split()
    too_much = admin.run("admin", "revoke", PAYEE.address, "1000", "--reason", "a test")
    assert too_much.status != 0 and "which is less" in too_much.stderr
