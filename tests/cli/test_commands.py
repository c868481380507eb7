"""The commands that ask and show, against a server that answers as told."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from potluck.model.account import Credential, Quota, Role, Scope
from potluck.model.device import Availability, DeviceDescription, DeviceKind
from potluck.model.error import Conflict
from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId
from potluck.model.lease import AttemptState
from potluck.model.node import NodeState, SandboxReport
from potluck.model.task import EndReason, ItemRange, TaskState, WaitingReason
from potluck.model.usage import Usage
from potluck.wire.consumer import (
    AttemptDevice,
    AttemptPage,
    AttemptView,
    DeviceView,
    Explanation,
    ItemCounts,
    LogPage,
    LogPiece,
    NodeList,
    NodeView,
    TaskPage,
    TaskView,
)
from potluck.wire.files import TaskFiles
from potluck.wire.identity import AccountPage, AccountView, Me, SessionList, SessionView
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, Scene, a_task, refuses, says

NOW = datetime.now(UTC)


def an_ended_task() -> TaskView:
    attempt = AttemptView(
        id=AttemptId("attempt_1"),
        number=2,
        state=AttemptState.FAILED,
        node_id=NodeId("node_1"),
        node_name="attic",
        devices=[AttemptDevice(DeviceId("device_1"), "CPU Ryzen", 500, 0)],
        assigned_at=NOW,
        usage=Usage(cpu_seconds=1.5, memory_peak_bytes=2**20),
    )
    return a_task(
        TaskState.FAILED,
        exit_code=3,
        reason=EndReason.EXIT_STATUS,
        started_at=NOW,
        finished_at=NOW,
        attempts=[attempt],
        charge_micro=250_000,
    )


def log_page(offset: int, *pieces: tuple[str, bytes]) -> Scene:
    logged = [LogPiece(stream, data) for stream, data in pieces]
    page = LogPage(AttemptId("attempt_1"), offset, offset + len(logged), logged, False)
    return says(page)


def test_ps(user: CommandLine, server: FakeServer) -> None:
    waiting = a_task(waiting=WaitingReason("no_device", "No node has a GPU."))
    server.plays("/v1/tasks", says(TaskPage([waiting, a_task(TaskState.SUCCEEDED, name="old")])))
    output_lines = user.run("ps").stdout.decode().splitlines()
    assert output_lines[0].split() == ["ID", "NAME", "STATE", "AGE", "RAN", "WHY"]
    assert output_lines[1].startswith(waiting.id)
    assert output_lines[1].endswith("No node has a GPU.")
    (document,) = user.run("ps", "--json").lines()
    assert [task["name"] for task in document["tasks"]] == ["hello", "old"]


def test_ps_and_attempts_show_the_last_output_of_a_failed_task(
    user: CommandLine, server: FakeServer
) -> None:
    end = {"reason": EndReason.EXIT_STATUS, "exit_code": 1, "detail": "it ended with status 1"}
    lines = "Traceback:\nValueError: \x1b]52;no luck"
    attempt = replace(an_ended_task().attempts[0], last_lines=lines, **end)
    task = a_task(TaskState.FAILED, attempts=[attempt], last_lines=lines, **end)
    server.plays("/v1/tasks", says(TaskPage([task])))
    (_, row) = user.run("ps").stdout.decode().splitlines()
    assert "it ended with status 1: ValueError: " in row and row.endswith("no luck")
    assert "\x1b" not in row
    server.plays(f"/v1/tasks/{task.id}/attempts", says(AttemptPage([attempt])))
    assert "ValueError" in user.run("attempts", task.id).stdout.decode()


def test_an_attempt_that_its_node_did_not_measure_shows_how_long_it_ran(
    user: CommandLine, server: FakeServer
) -> None:
    stopped = replace(
        an_ended_task().attempts[0],
        state=AttemptState.LOST,
        reason=EndReason.NODE_LEFT,
        started_at=NOW - timedelta(seconds=6),
        finished_at=NOW,
        usage=Usage(prepare_seconds=0.1),
    )
    task = a_task(attempts=[stopped])
    server.plays(f"/v1/tasks/{task.id}/attempts", says(AttemptPage([stopped])))
    row = user.run("attempts", task.id).stdout.decode().splitlines()[1]
    assert "6.0 s  -  " in row and row.endswith("node left"), row


def test_ps_asks_page_after_page(user: CommandLine, server: FakeServer) -> None:
    pages = [TaskPage([a_task()], "older"), TaskPage([a_task(), a_task()])]
    server.plays("/v1/tasks", *(says(page) for page in pages))
    (document,) = user.run("ps", "--all", "--state", "queued", "--json").lines()
    assert len(document["tasks"]) == 3
    assert server.requests[1].path == "/v1/tasks?limit=100&cursor=older&state=queued"


def test_a_task_is_known_by_its_name_too(user: CommandLine, server: FakeServer) -> None:
    first_task, other = a_task(name="train.py"), a_task(name="sweep.py")
    server.plays("/v1/tasks", says(TaskPage([first_task, other])))
    server.plays(f"/v1/tasks/{other.id}/cancel", says(other))
    assert user.run("cancel", "sweep.py").status == 0
    server.plays("/v1/tasks", says(TaskPage([first_task, a_task(name="train.py")])))
    result = user.run("cancel", "train.py")
    assert result.status == 64 and "matches 2 of your tasks" in result.stderr
    assert f"{first_task.id} (queued, submitted" in result.stderr


def test_a_name_of_several_is_the_newest_for_readers_and_the_live_one_for_cancel(
    user: CommandLine, server: FakeServer
) -> None:
    ended_tasks = [a_task(TaskState.FAILED, name="train.py") for _ in range(2)]
    live = a_task(TaskState.RUNNING, name="train.py")
    server.plays("/v1/tasks", says(TaskPage([ended_tasks[0], live, ended_tasks[1]])))
    server.plays(f"/v1/tasks/{ended_tasks[0].id}", says(ended_tasks[0]))
    result = user.run("status", "train.py")
    assert result.status == 0, result.stderr
    assert ended_tasks[0].id in result.stdout.decode()
    assert f"the newest of 3 tasks named train.py: {ended_tasks[0].id} (failed" in result.stderr
    assert user.run("status", "--json", "train.py").stderr == ""
    server.plays(f"/v1/tasks/{live.id}/cancel", says(live))
    assert live.id in user.run("cancel", "train.py").stdout.decode()
    server.plays("/v1/tasks", says(TaskPage(ended_tasks)))
    result = user.run("cancel", "train.py")
    assert (result.status, "Both tasks that match" in result.stderr) == (1, True)


def test_a_whole_name_takes_precedence_over_the_end_of_an_id(
    user: CommandLine, server: FakeServer
) -> None:
    other = a_task()
    same_named = a_task(name=other.id[-4:])
    server.plays("/v1/tasks", says(TaskPage([other, same_named])))
    server.plays(f"/v1/tasks/{same_named.id}/cancel", says(same_named))
    assert same_named.id in user.run("stop", other.id[-4:]).stdout.decode(), "stop is cancel"


def test_the_newest_task_is_the_default(user: CommandLine, server: FakeServer) -> None:
    newest = a_task(TaskState.CANCELLED)
    server.plays("/v1/tasks", says(TaskPage([newest, a_task()])))
    server.plays(f"/v1/tasks/{newest.id}", says(newest))
    server.plays(f"/v1/tasks/{newest.id}/attempts", says(AttemptPage([])))
    assert "it waited (cancelled)" in user.run("attempts").stderr
    server.plays(f"/v1/tasks/{newest.id}/retry", says(newest))
    assert newest.id in user.run("retry").stdout.decode()
    server.plays(
        f"/v1/tasks/{newest.id}/explain", says(Explanation(newest.id, newest.state, "Ended.", 0))
    )
    assert user.run("explain").stdout.decode() == "Ended.\n"


def test_ps_filters_and_counts_items(user: CommandLine, server: FakeServer) -> None:
    array = a_task(TaskState.RUNNING, items=ItemCounts(2000, 0, 1000, 20))
    server.plays("/v1/tasks", says(TaskPage([array])))
    filters = "--state queued --state running --name a.py --kind script --since 2026-01-02T00:00Z"
    result = user.run("ps", *filters.split(), "--until", "2026-01-03T00:00+01:00")
    assert "hello × 2,000" in result.stdout.decode() and "running 51 %" in result.stdout.decode()
    assert server.requests[0].path == (
        "/v1/tasks?limit=20&state=queued&state=running&name=a.py&kind=script"
        "&since=2026-01-02T00%3A00%3A00%2B00%3A00&until=2026-01-02T23%3A00%3A00%2B00%3A00"
    )
    server.plays("/v1/tasks", says(TaskPage([])))
    assert "No tasks match" in user.run("ps", "--since", "2h").stderr
    wrong = user.run("ps", "--since", "yesterday")
    assert (wrong.status, "is not a time" in wrong.stderr) == (64, True)


def test_quota_changes_only_the_given_limits(user: CommandLine, server: FakeServer) -> None:
    account = AccountView(
        *(AccountId("account_1"), "0xAb", [Role.CONSUMER], NOW, 0, 0), quota=Quota(2.0, 8, 100)
    )
    server.plays("/v1/accounts", says(AccountPage([account])))
    server.plays("/v1/accounts/account_1/quota", Scene(204))
    result = user.run(
        *("admin", "quota", "0xab", "--running-devices", "4", "--queued-tasks", "default"),
        *("--priority", "-5", "--files", "2GiB"),
    )
    assert result.status == 0
    assert server.requests[-1].method == "PUT"
    sent = msgspec.json.decode(server.requests[-1].body, type=Quota)
    assert sent == Quota(2.0, 4, None, -5, 2**31)
    limits_text = "weight 2, at most 4 devices at a time, the default number of tasks waiting"
    assert f"{limits_text}, priority at most -5, files of at most" in result.stdout.decode()
    server.requests.clear()
    assert "weight 2" in user.run("admin", "quota", "account_1").stdout.decode()
    assert [request.method for request in server.requests] == ["GET"], "it only looks"
    assert "≤ 100" in user.run("admin", "accounts").stdout.decode()
    assert user.run("admin", "quota", "account_1", "--queued-tasks", "many").status == 64
    assert user.run("admin", "quota", "account_1", "--priority", "101").status == 64
    assert user.run("admin", "quota", "account_2").status == 66


def test_ps_without_tasks_says_how_to_start_one(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/tasks", says(TaskPage([])))
    result = user.run("ps")
    assert (result.status, result.stdout) == (0, b"")
    assert "potluck run" in result.stderr


def test_logs_of_the_newest_task(user: CommandLine, server: FakeServer) -> None:
    task = an_ended_task()
    server.plays("/v1/tasks", says(TaskPage([task, a_task()])))
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(
        f"/v1/tasks/{task.id}/logs",
        log_page(0, ("stdout", b"\xffone\n"), ("stderr", b"two\n")),
        log_page(2, ("stdout", b"three")),
        log_page(3),
    )
    result = user.run("logs")
    assert (result.status, result.stdout, result.stderr) == (0, b"\xffone\nthree", "two\n")
    assert server.requests[-1].path.endswith("/logs?attempt=2&offset=3")


def a_range(number: int, start: int, end: int) -> AttemptView:
    (attempt,) = an_ended_task().attempts
    return replace(attempt, number=number, items=ItemRange(start, end))


def test_attempts_are_listed_page_by_page(user: CommandLine, server: FakeServer) -> None:
    task = a_task(TaskState.RUNNING, attempt_count=52)
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(
        f"/v1/tasks/{task.id}/attempts",
        says(AttemptPage([a_range(52, 5, 9)], 51)),
        says(AttemptPage([a_range(50, 4, 5)])),
    )
    result = user.run("attempts", task.id)
    lines = result.stdout.decode().splitlines()
    assert [line.split()[:2] for line in lines] == [["N", "ITEMS"], ["52", "5-8"], ["50", "4"]]
    assert "attic (CPU Ryzen)" in lines[1]
    assert server.requests[-1].path.endswith("/attempts?cursor=51")
    assert "  1.5 s · 1 MiB  " in lines[1], "what it used"


def test_more_attempts_than_shown_are_mentioned(user: CommandLine, server: FakeServer) -> None:
    task = a_task(TaskState.RUNNING, attempt_count=53)
    server.plays(f"/v1/tasks/{task.id}", says(task))
    page = AttemptPage([a_range(53, 5, 9), a_range(52, 4, 5), a_range(51, 3, 4)])
    server.plays(f"/v1/tasks/{task.id}/attempts", says(page))
    result = user.run("attempts", task.id, "--limit", "2")
    assert len(result.stdout.splitlines()) == 3
    assert "The newest 2 of 53; --limit N shows more." in result.stderr
    assert "--limit" not in user.run("attempts", task.id, "--limit", "3").stderr


def test_a_log_that_is_kept_elsewhere_is_not_passed_over_in_silence(
    user: CommandLine, server: FakeServer
) -> None:
    task = an_ended_task()
    server.plays(f"/v1/tasks/{task.id}", says(task))
    page = LogPage(task.attempts[0].id, 0, 0, [], complete=False, elsewhere=True)
    server.plays(f"/v1/tasks/{task.id}/logs", says(page))
    result = user.run("logs", task.id)
    assert (result.status, result.stdout) == (0, b"")
    assert "on another instance" in result.stderr


def test_logs_of_one_item_are_those_of_the_newest_attempt_at_it(
    user: CommandLine, server: FakeServer
) -> None:
    task = a_task(TaskState.RUNNING, attempt_count=52, items=ItemCounts(9, 0, 0, 0))
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(
        f"/v1/tasks/{task.id}/attempts",
        says(AttemptPage([], 40)),
        says(AttemptPage([a_range(12, 5, 9), a_range(3, 7, 8)])),
    )
    server.plays(
        f"/v1/tasks/{task.id}/logs?attempt=12&offset=0",
        log_page(0, *titled(6, b"six\n"), *titled(7, b"sev")),
    )
    later_page = log_page(4, ("stdout", b"en\n"), *titled(8, b"eight\n"))
    server.plays(f"/v1/tasks/{task.id}/logs?attempt=12&offset=4", later_page)
    server.plays(f"/v1/tasks/{task.id}/logs", log_page(7))
    result = user.run("logs", task.id, "--item", "7")
    assert (result.stdout, result.stderr) == (b"seven\n", "")
    assert server.requests[-1].path.endswith("/logs?attempt=12&offset=7")
    silent = user.run("logs", task.id, "--item", "5")
    assert (silent.status, silent.stdout) == (0, b"")
    assert "no output of item 5 is kept" in silent.stderr
    assert user.run("logs", task.id, "--item", "7", "--attempt", "1").status == 64


def titled(item: int, data: bytes) -> tuple[tuple[str, bytes], ...]:
    """As a node writes it."""
    return ("potluck", f"item {item}:\n".encode()), ("stdout", data)


def test_the_log_of_an_array_names_its_attempt(user: CommandLine, server: FakeServer) -> None:
    attempts = [a_range(51, 4, 5), a_range(52, 5, 9)]
    task = a_task(
        TaskState.RUNNING, attempts=attempts, attempt_count=52, items=ItemCounts(9, 0, 0, 0)
    )
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/logs", log_page(0, *titled(6, b"six\n")), log_page(2))
    result = user.run("logs", task.id)
    assert result.stdout == b"six\n"
    message = " ".join(result.stderr.split())
    assert "attempt 52 of 52, which ran items 5 to 8; --attempt N shows another" in message
    assert f"`potluck result {task.id[-8:]}` that of all" in message


def test_an_empty_log_says_why_it_is_empty(user: CommandLine, server: FakeServer) -> None:
    waiting = a_task(waiting=WaitingReason("no_device", "No node has a GPU."))
    server.plays(f"/v1/tasks/{waiting.id}", says(waiting))
    result = user.run("logs", waiting.id)
    assert (result.status, result.stdout) == (0, b"")
    assert result.stderr.startswith("potluck: queued: No node has a GPU; ")
    assert f"`potluck explain {waiting.id[-8:]}` shows more" in result.stderr
    task = an_ended_task()
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/logs", log_page(0))
    assert user.run("logs", task.id).stderr == "potluck: it wrote nothing\n"


def test_an_item_without_an_attempt_has_no_log(user: CommandLine, server: FakeServer) -> None:
    task = a_task(TaskState.RUNNING, items=ItemCounts(9, 9, 0, 0))
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/attempts", says(AttemptPage([])))
    result = user.run("logs", task.id, "--item", "7")
    assert result.status != 0 and "has run an item 7" in result.stderr
    server.plays(f"/v1/tasks/{task.id}", says(replace(task, items=None)))
    result = user.run("logs", task.id, "--item", "7")
    assert result.status == 64 and "is not an array" in result.stderr


def test_files_of_an_attempt_that_never_was(user: CommandLine, server: FakeServer) -> None:
    task = a_task(TaskState.SUCCEEDED, attempt_count=1)
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/files", says(TaskFiles(None, [])))
    result = user.run("files", task.id, "--attempt", "9")
    assert result.status == 66 and "has had 1 attempt." in result.stderr
    assert user.run("files", task.id, "--attempt", "1").status == 0


def test_waiting_and_finished_arrays_show_no_progress(
    user: CommandLine, server: FakeServer
) -> None:
    running_task = a_task(started_at=NOW)
    cancelled_task = a_task(TaskState.CANCELLED, items=ItemCounts(100, 51, 49, 0))
    server.plays("/v1/tasks", says(TaskPage([running_task, cancelled_task])))
    lines = user.run("ps").stdout.decode().splitlines()
    assert "%" not in lines[2]
    assert lines[1].split()[-1] == "-", "it has not run since"


@pytest.mark.parametrize("part", ["beginning", "end"])
def test_a_part_of_an_id_is_enough(user: CommandLine, server: FakeServer, part: str) -> None:
    task = a_task()
    cancelled = replace(task, state=TaskState.CANCELLED)
    server.plays("/v1/tasks", says(TaskPage([task])))
    server.plays(f"/v1/tasks/{task.id}/cancel", says(cancelled))
    id_part = task.id[:20] if part == "beginning" else task.id[-6:].upper()
    assert f"Cancelled hello ({task.id})" in user.run("cancel", id_part).stdout.decode()
    server.plays("/v1/tasks", says(TaskPage([cancelled])))
    server.plays(f"/v1/tasks/{task.id}/cancel", says(cancelled))
    output = user.run("cancel", id_part).stdout.decode()
    assert output == f"hello ({task.id}) was already cancelled.\n"


def test_a_part_of_two_ids_is_not(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/tasks", says(TaskPage([a_task(), a_task()])))
    for part in ("task_0", "task_"):
        result = user.run("cancel", part)
        assert result.status == 64
        assert "matches 2 of your tasks" in result.stderr


def test_result_of_an_ended_task(user: CommandLine, server: FakeServer) -> None:
    task = an_ended_task()
    server.plays(f"/v1/tasks/{task.id}", says(task))
    pages = (log_page(0, ("stdout", b"42\n"), ("stderr", b"no\n")), log_page(2))
    server.plays(f"/v1/tasks/{task.id}/logs", *pages)
    server.plays(f"/v1/tasks/{task.id}/logs?offset=-32", log_page(2))
    result = user.run("result", task.id)
    assert (result.status, result.stdout) == (0, b"42\n")
    for sentence in ("failed", "exit status 3", "attic (CPU Ryzen)", "0.25 credits", "1 MiB"):
        assert sentence in result.stderr
    server.plays(f"/v1/tasks/{task.id}/logs", *pages)
    (document,) = user.run("result", task.id, "--json").lines()
    assert (document["id"], document["exit_code"], document["stdout"]) == (task.id, 3, "42\n")


def test_result_of_a_task_that_runs_says_how_to_wait(user: CommandLine, server: FakeServer) -> None:
    task = a_task(TaskState.RUNNING)
    server.plays(f"/v1/tasks/{task.id}", says(task))
    result = user.run("result", task.id)
    assert result.status == 1
    assert "hello has not ended yet: running." in result.stderr
    assert "--wait" in result.stderr


def test_cancel_passes_the_servers_refusal_on(user: CommandLine, server: FakeServer) -> None:
    task = a_task()
    server.plays(f"/v1/tasks/{task.id}", says(task))
    refusal = refuses(Conflict("It has succeeded.", "There is nothing left to cancel."))
    server.plays(f"/v1/tasks/{task.id}/cancel", refusal)
    result = user.run("cancel", task.id)
    assert result.status == 1
    assert "It has succeeded." in result.stderr


def test_nodes(user: CommandLine, server: FakeServer) -> None:
    gpu = DeviceDescription(DeviceKind.GPU, "gpu-1", "NVIDIA", "RTX 4090", 24 * 2**30)
    node = NodeView(
        id=NodeId("node_1"),
        name="attic",
        state=NodeState.ONLINE,
        platform="Linux",
        potluck_version="0.1.0",
        cores=16,
        memory_bytes=64 * 2**30,
        disk_bytes=2**40,
        sandbox=SandboxReport("bwrap", "watchdog", "watchdog"),
        devices=[
            *(DeviceView(DeviceId(f"device_{n}"), gpu, 1000 * n) for n in (0, 1)),
            DeviceView(DeviceId("device_2"), gpu, 1000, Availability.IN_USE, "Its owner is there."),
        ],
        is_mine=True,
        heartbeat_at=NOW,
    )
    server.plays("/v1/nodes", says(NodeList([node])))
    output = user.run("nodes").stdout.decode()
    assert "attic (mine)" in output
    assert "3 × RTX 4090, 1 free, 1 in use" in output
    assert "64 GiB" in output
    (document,) = user.run("nodes", "--json").lines()
    assert document["nodes"][0]["id"] == "node_1"


def test_an_empty_pool_says_how_to_join(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/nodes", says(NodeList([])))
    assert f"potluck provide {server.url}" in user.run("nodes").stderr


ME = Me(
    id=AccountId("account_1"),
    address="0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
    roles=[Role.ADMIN, Role.CONSUMER],
    signed_in_by=Credential.SESSION,
    scopes=[Scope.TASKS_READ],
    available_micro=1_500_000,
    held_micro=250_000,
)


def test_whoami_shows_account_and_session(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/me", says(ME))
    session = SessionView("session_1", "attic", NOW, NOW, NOW + timedelta(days=2.1), True)
    other = SessionView("session_2", "cellar", NOW, NOW, NOW + timedelta(days=9), False)
    server.plays("/v1/me/sessions", says(SessionList([other, session])))
    output = user.run("whoami").stdout.decode()
    assert f"{ME.address} (admin, consumer)" in output
    assert "1.5 credits available, 0.25 more held for tasks" in output
    assert f"account_1 at {server.url}" in output
    assert "a session that expires after 2 d 2 h without use" in output
    (document,) = user.run("whoami", "--json").lines()
    assert (document["address"], document["url"]) == (ME.address, server.url)
    assert document["session_expires_at"].startswith(f"{session.expires_at:%Y-%m-%d}")


def test_whoami_shows_the_scopes_of_an_api_key(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/me", says(replace(ME, signed_in_by=Credential.KEY)))
    assert b"signed in by an API key for tasks:read" in user.run("whoami").stdout
    assert [request.path for request in server.requests] == ["/v1/me"]


def test_grant(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/accounts/account_2/grants", Scene(204))
    result = user.run("admin", "grant", "account_2", "2.5")
    assert result.stdout == b"Granted 2.5 credits to account_2.\n"
    assert server.requests[0].body == b'{"amount_micro":2500000}'


def test_the_named_server_is_asked_and_gets_no_foreign_token(
    server: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "profile.toml").write_text('url = "http://127.0.0.1:1"\ntoken = "theirs"\n')
    result = CommandLine(tmp_path).run("whoami", "--server", server.url)
    assert result.status == 77
    assert f"You are not signed in to {server.url}" in result.stderr
    assert server.requests == []


def test_help_and_version_need_nothing(stranger: CommandLine) -> None:
    assert b"ps" in stranger.run().stdout
    assert stranger.run("version").stdout.startswith(b"Potluck 0.")
    assert stranger.run("--version").stdout.startswith(b"Potluck 0.")


@pytest.mark.parametrize("name", ["x", "Daily", "a" * 500, "daily@abcd"])
def test_a_wrong_name_of_a_volume_is_told_what_a_name_has(
    user: CommandLine, tmp_path: Path, name: str
) -> None:
    result = user.run("volume", "put", name, tmp_path)
    assert (
        result.status == 64 and "2 to 63 lower-case" in result.stderr and len(result.stderr) < 400
    )
    assert "--volume" not in result.stderr and ":/data" not in result.stderr


def test_a_file_that_is_no_export_is_refused_with_the_expected_form(
    user: CommandLine, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}\n")
    result = user.run("receipts", "verify", other)
    assert result.status == 64 and "--help" not in result.stderr
    assert "`potluck receipts export FILE`" in result.stderr, result.stderr
