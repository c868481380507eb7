"""`--dry-run`: what a task would meet, and nothing sent but the question."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from potluck.model.task import TaskRequest
from potluck.wire.consumer import RefusalCount
from potluck.wire.estimate import Estimate, Outlook
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, says

FREE = Estimate(
    Outlook.NOW,
    "It would start now: 2 of 3 suitable devices are free.",
    nodes=5,
    suitable_nodes=2,
    suitable_devices=3,
    free_devices=2,
    cheapest_micro_per_hour=300_000,
    dearest_micro_per_hour=500_000,
    hold_micro=600_000,
    most_micro=1_000_000,
    expected_micro=150_000,
    available_micro=10_000_000,
    expected_seconds=1800.0,
    basis="there is free capacity for it now",
)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text("print(1)\n")
    return path


def test_all_known_facts_are_shown(user: CommandLine, server: FakeServer, script: Path) -> None:
    server.plays("/v1/tasks/estimate", says(FREE))
    result = user.run("run", "--dry-run", "--time", "2h", script)
    assert result.status == 0
    assert result.stdout.decode().splitlines() == [
        "It would start now: 2 of 3 suitable devices are free.",
        "",
        "devices  2 of 3 suitable ones free, on 2 of 5 nodes",
        "price    0.3 to 0.5 credits an hour",
        "hold     0.6 credits or more are reserved while an attempt runs, for its time limit of"
        " 2 h 0 min; the unused part is returned",
        "cost     at most 1 credit; about 0.15 if it takes 30 min 0 s",
        "balance  10 credits: enough",
        "starts   now: there is free capacity for it now",
        "takes    about 30 min 0 s",
    ]
    assert result.stderr == "Nothing was uploaded or submitted.\n"


def test_a_dry_run_sends_only_the_estimate_request(
    user: CommandLine, server: FakeServer, script: Path, tmp_path: Path
) -> None:
    """Its files are named and not read; a secret is not even asked for."""
    (tmp_path / "data.csv").write_text("12345")
    (tmp_path / "src").mkdir()
    server.plays("/v1/tasks/estimate", says(FREE))
    needs_said = "--gpu 2 --vram 24GB --max-price 0.5 --secret UNSET_HERE --env A=1"
    along: list[str | Path] = ["--file", tmp_path / "data.csv", "--folder", tmp_path / "src"]
    result = user.run("run", "--dry-run", *needs_said.split(), "--model", "RTX 40*", *along, script)
    assert result.status == 0, result.stderr
    (sent,) = server.requests
    assert "Idempotency-Key" not in sent.headers
    task_request = msgspec.json.decode(sent.body, type=TaskRequest)
    needs = task_request.requirements
    assert (needs.device_count, needs.device_memory_bytes) == (2, 24 * 10**9)
    assert (needs.device_model, needs.max_price_micro_per_hour) == ("RTX 40*", 500_000)
    assert [(file.path, file.blob.size_bytes) for file in task_request.spec.files] == [
        ("data.csv", 5)
    ]
    assert task_request.spec.folder is not None and list(task_request.secrets) == ["UNSET_HERE"]


def test_a_dry_run_that_would_never_start_exits_with_1_and_hints(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    never_estimate = Estimate(
        Outlook.NEVER,
        "As things are, it would never start: 5 nodes have no device of the requested model.",
        nodes=5,
        refusals=[
            RefusalCount("device_model", 5, "5 nodes have no device of the requested model.")
        ],
        changes=["5 nodes would take it if it did not require the model H\x1b100."],
    )
    server.plays("/v1/tasks/estimate", says(never_estimate))
    result = user.run("run", "--dry-run", script)
    assert result.status == 1
    assert result.stdout.decode().splitlines()[2:] == [
        "devices  none of 5 nodes has a suitable one",
        "starts   never, as things are",
        "",
        "Of 5 nodes:",
        "  5 nodes have no device of the requested model.",
        "",
        "What would help:",
        "  5 nodes would take it if it did not require the model H�100.",
    ]


def test_an_array_that_would_wait(user: CommandLine, server: FakeServer, script: Path) -> None:
    start = datetime.now(UTC) + timedelta(minutes=5, seconds=30)
    later = replace(
        FREE,
        outlook=Outlook.LATER,
        estimated_start=start,
        basis="the tasks running there should end by then",
        whole_seconds=600.0,
        available_micro=700_000,
    )
    server.plays("/v1/tasks/estimate", says(later))
    result = user.run("run", "--dry-run", "--array", "100", script)
    lines = result.stdout.decode().splitlines()
    assert result.status == 0
    assert "starts   in about 5 min: the tasks running there should end by then" in lines
    assert "takes    about 10 min 0 s for 100 items, if all suitable devices run it" in lines
    assert "balance  0.7 credits: enough to start" in lines


def test_json_is_the_servers_answer(user: CommandLine, server: FakeServer, script: Path) -> None:
    server.plays("/v1/tasks/estimate", says(FREE))
    result = user.run("run", "--dry-run", "--json", script)
    assert (result.status, result.stderr) == (0, "")
    assert result.lines() == [{**msgspec.to_builtins(FREE), "defaults": []}]
