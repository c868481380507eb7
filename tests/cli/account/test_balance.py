"""`potluck balance`: what there is, what came and went, and what it says of a free pool."""

from datetime import UTC, date, datetime

from msgspec.structs import replace

from potluck.model.credit import EntryKind
from potluck.model.ids import AttemptId, TaskId
from potluck.wire.money.ledger import LedgerEntry, LedgerLine, LedgerPage, LedgerSummary
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, says

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
TASK = TaskId("task_01jd0000000000000000000abc")
SUMMARY = LedgerSummary(
    available_micro=9_250_000,
    held_micro=500_000,
    since=AT,
    until=AT,
    granted_micro=10_000_000,
    spent_micro=750_000,
    earned_micro=500_000,
    lines=[
        LedgerLine(0, 750_000, 0, date(2026, 1, 31)),
        LedgerLine(10_000_000, 0, 500_000, date(2026, 1, 30)),
    ],
    is_free=False,
)
BY_TASK = [
    LedgerLine(0, 750_000, 0, None, TASK, "train\x1b[2J.py"),
    LedgerLine(0, 0, 500_000, None, TASK),
    LedgerLine(10_000_000, 0, 0, deposited_micro=3_000_000, set_aside_micro=400_000),
]
ATTEMPT = AttemptId("attempt_01jd0000000000000000000abc")
ENTRIES = [
    LedgerEntry(5, AT, EntryKind.REWARD, 500_000, 0, TASK, None, ATTEMPT, "attic"),
    LedgerEntry(4, AT, EntryKind.REFUND, 250_000, -250_000, TASK, "train.py", ATTEMPT, "barn"),
    LedgerEntry(3, AT, EntryKind.CHARGE, 0, -750_000, TASK, "train.py", ATTEMPT, "barn"),
    LedgerEntry(2, AT, EntryKind.HOLD, -1_000_000, 1_000_000, TASK, "train.py", ATTEMPT, "barn"),
    LedgerEntry(1, AT, EntryKind.GRANT, 10_000_000, 0),
]


def plays(server: FakeServer, summary: LedgerSummary, entries: list[LedgerEntry]) -> None:
    server.plays("/v1/me/ledger/summary", says(summary))
    server.plays("/v1/me/ledger", says(LedgerPage(entries)))


def test_balance_days_and_movements(user: CommandLine, server: FakeServer) -> None:
    plays(server, SUMMARY, ENTRIES)
    output = user.run("balance").stdout.decode()
    assert "9.25 credits available, 0.5 more held for tasks\n" in output
    assert "0.75 spent, 0.5 earned, 10 granted" in output
    assert "2026-01-31   0.75       -        -\n2026-01-30      -     0.5       10\n" in output
    rows = [line.split()[2:] for line in output.splitlines()[-5:]]
    assert [row[:3] for row in rows] == [
        ["+0.5", "-", "earned"],
        ["+0.25", "-0.25", "refunded"],
        ["-", "-0.75", "spent"],
        ["-1", "+1", "held"],
        ["+10", "-", "granted"],
    ]
    assert "spent on train.py (00000abc) on barn" in output
    assert "earned by attic with task 00000abc" in output
    assert "free of charge" not in output


def test_a_line_for_each_task(user: CommandLine, server: FakeServer) -> None:
    in_all = replace(SUMMARY, lines=BY_TASK, deposited_micro=3_000_000, set_aside_micro=400_000)
    paid = LedgerEntry(6, AT, EntryKind.PAYOUT, 0, 0, claimable_micro=-400_000)
    plays(server, in_all, [paid])
    output = user.run("balance", "--by", "task").stdout.decode()
    assert "train�[2J.py (00000abc)   0.75" in output, "a terminal obeys nothing of it"
    assert "00000abc on my machines" in output
    assert "10 granted, 3 deposited, 0.4 set aside for payouts" in output
    assert "no task" in output and "10          3        0.4" in output
    assert "paid out: 0.4 credits" in output
    assert any("by=task" in request.path for request in server.requests)


def test_a_free_pool_says_so(user: CommandLine, server: FakeServer) -> None:
    empty_summary = LedgerSummary(0, 0, AT, AT, 0, 0, 0, [], is_free=True)
    plays(server, empty_summary, [])
    assert user.run("balance").stdout.decode() == (
        "0 credits available\nThis pool is free of charge: no device has a price.\n"
    )
    plays(server, replace(empty_summary, is_free=False), [])
    assert "Nothing was spent or earned since" in user.run("balance").stdout.decode()


def test_filters_and_json(user: CommandLine, server: FakeServer) -> None:
    plays(server, SUMMARY, ENTRIES)
    (document,) = user.run("balance", "--json", "--limit", "2", "--since", "2026-01-01").lines()
    assert (document["available_micro"], len(document["entries"])) == (9_250_000, 2)
    user.run("balance", "--kind", "hold", "--kind", "charge", "--task", TASK)
    request_path = server.requests[-1].path
    assert "kind=hold&kind=charge" in request_path and f"task_id={TASK}" in request_path
    wrong = user.run("balance", "--kind", "gift")
    assert wrong.status == 64 and "gift" in wrong.stderr
    server.requests.clear()
    user.run("balance", "--limit", "0")
    assert len(server.requests) == 1, "no movements were asked for"
