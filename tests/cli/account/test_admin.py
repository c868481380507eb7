"""`potluck admin`: labels, notes, credit taken back, all tasks, cordons."""

from datetime import UTC, datetime

import msgspec
import pytest

from potluck.model.account import Role
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.task import TaskState
from potluck.model.terms import TaskKind
from potluck.wire.admin import Cordon, PoolTask, PoolTaskPage, RemoveNode, SetLabel, TakeCredit
from potluck.wire.identity import (
    AccountPage,
    AccountView,
    InviteList,
    InviteMade,
    InviteView,
    NewInvite,
)
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, says

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
ADA, BEN = (
    AccountId("account_01jd0000000000000000000abc"),
    AccountId("account_01jd00000000000000000ben"),
)
WALLET = "0x" + "Ab" * 20
NODE = NodeId("node_01jd0000000000000000000abc")


@pytest.fixture(autouse=True)
def accounts(server: FakeServer) -> None:
    rows = [
        AccountView(BEN, "0x" + "1" * 40, [Role.CONSUMER], AT, 0, 0),
        AccountView(ADA, WALLET, [Role.CONSUMER], AT, 0, 0, label="Ada Lovelace"),
    ]
    server.plays("/v1/accounts", says(AccountPage(rows)))


def sent(server: FakeServer, path: str) -> bytes:
    return next(request.body for request in server.requests if request.path == path)


@pytest.mark.parametrize("name", ["ada lovelace", WALLET.lower(), ADA])
def test_an_account_is_named_by_label_wallet_or_id(
    user: CommandLine, server: FakeServer, name: str
) -> None:
    path = f"/v1/accounts/{ADA}/takes"
    server.plays(path, says(None, 204))
    result = user.run("admin", "take", name, "2.5", "--reason", "granted twice")
    assert (result.status, result.stdout.decode()) == (0, f"Took 2.5 credits from {name}.\n"), (
        result
    )
    body = msgspec.json.decode(sent(server, path), type=TakeCredit)
    assert body == TakeCredit(2_500_000, "granted twice")


def test_a_label_is_set_and_shown(user: CommandLine, server: FakeServer) -> None:
    server.plays(f"/v1/accounts/{BEN}/label", says(None, 204))
    assert user.run("admin", "label", BEN, "Ben").status == 0
    body = sent(server, f"/v1/accounts/{BEN}/label")
    assert msgspec.json.decode(body, type=SetLabel) == SetLabel("Ben")
    assert b"Ada Lovelace" in user.run("admin", "accounts").stdout
    unknown = user.run("admin", "label", "Eve", "E")
    assert unknown.status != 0 and "'Eve'" in unknown.stderr


def test_credit_is_not_taken_without_a_reason(user: CommandLine, server: FakeServer) -> None:
    assert "--reason" in user.run("admin", "take", ADA, "1").stderr
    assert not server.requests


def test_an_invite_has_a_note(user: CommandLine, server: FakeServer) -> None:
    view = InviteView("invite_1", [Role.CONSUMER], 0, 1, AT, AT, "for Ben")
    server.plays("/v1/invites", says(InviteMade("code", view), 201), says(InviteList([view])))
    assert user.run("admin", "invite", "--note", "for Ben", "--json").status == 0
    assert msgspec.json.decode(sent(server, "/v1/invites"), type=NewInvite).note == "for Ben"
    assert b"for Ben" in user.run("admin", "invites").stdout


def test_tasks_of_all_accounts(user: CommandLine, server: FakeServer) -> None:
    task = PoolTask(
        *(TaskId("task_1"), ADA, WALLET, TaskKind.SCRIPT, TaskState.RUNNING, AT, AT),
        node_ids=[NODE],
        label="Ada Lovelace",
    )
    server.plays(f"/v1/pool/tasks?account={ADA}&state=running", says(PoolTaskPage([task])))
    result = user.run("admin", "tasks", "--account", "Ada Lovelace", "--state", "running")
    assert result.status == 0, result.stderr
    assert all(word in result.stdout.decode() for word in ("task_1", "Ada Lovelace", NODE))


def test_a_node_is_cordoned_uncordoned_and_removed(user: CommandLine, server: FakeServer) -> None:
    for path in ("cordon", "uncordon", "remove"):
        server.plays(f"/v1/nodes/{NODE}/{path}", says(None, 204))
    assert user.run("admin", "cordon", NODE, "--reason", "a fault").status == 0
    body = sent(server, f"/v1/nodes/{NODE}/cordon")
    assert msgspec.json.decode(body, type=Cordon) == Cordon("a fault")
    assert user.run("admin", "uncordon", NODE).status == 0
    assert user.run("admin", "remove-node", NODE, "--reason", "sold").status == 0
    body = sent(server, f"/v1/nodes/{NODE}/remove")
    assert msgspec.json.decode(body, type=RemoveNode) == RemoveNode("sold")
