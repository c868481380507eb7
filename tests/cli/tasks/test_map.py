"""`potluck map` and `submit` on a real pool: items arrive, and results come back by item."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, InProcess
from tests.cli.operate.platform_process import PlatformProcess

SHOWS = """
import os, pathlib, sys
value, words = os.environ["POTLUCK_ITEM_VALUE"], sys.argv[1:]
print(os.environ["POTLUCK_ITEM"], value, *words)
if value == "bad":
    sys.exit(3)
pathlib.Path(os.environ["POTLUCK_OUTPUT"], "said.txt").write_text(value)
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The whole platform, and where its profile is."""
    home = tmp_path_factory.mktemp("mapped")
    with PlatformProcess(CommandLine(home / "config"), home / "data") as platform:
        platform.ready()
        yield home / "config"


@pytest.fixture
def person(up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Works in a directory with a script."""
    monkeypatch.chdir(tmp_path)
    Path("job.py").write_text(SHOWS)
    return InProcess(up)


def test_a_line_is_an_item_and_output_comes_in_their_order(person: CommandLine) -> None:
    Path("names.txt").write_text("Ada\nGrace Hopper\nbad\nÄnne\n")
    result = person.run("map", "--allow-failures", "1", "names.txt", "job.py", "--to", "{}")
    assert result.status == 0, result.stderr
    assert result.stdout.decode().splitlines() == [
        *("0 Ada --to Ada", "1 Grace Hopper --to Grace Hopper", "2 bad --to bad"),
        "3 Änne --to Änne",
    ]
    assert "4 of 4 items, 1 failed" in result.stderr
    assert "   2  bad        1  it ended with exit status 3" in result.stderr


def test_output_of_items_is_available_after_a_detached_start(person: CommandLine) -> None:
    Path("names.txt").write_text("Ada\nbad\nGrace\n")
    started = person.run("map", "-d", "--allow-failures", "1", "names.txt", "job.py")
    task_id = started.stdout.decode().strip()
    result = person.run("result", "--wait", task_id)
    assert result.stdout.decode().splitlines() == ["0 Ada Ada", "1 bad bad", "2 Grace Grace"]
    assert "exit status 3" in result.stderr
    result = person.run("result", task_id, "-o", "out")
    assert (result.status, result.stdout) == (0, b""), result.stderr
    assert "It left no files" not in result.stderr
    assert Path("out/2/stdout.txt").read_text() == "2 Grace Grace\n"
    assert Path("out/2/said.txt").read_text() == "Grace"
    (document,) = person.run("result", task_id, "--json").lines()
    assert document["item_output"][1]["stdout"] == "1 bad bad\n"
    assert [failed_item["item"] for failed_item in document["failed_items"]] == [1]
    item_result = person.run("logs", task_id, "--item", "2")
    assert item_result.stdout == b"2 Grace Grace\n"


def test_rows_have_fields_and_results_a_directory_each(person: CommandLine) -> None:
    Path("grid.csv").write_text("lr,depth\n0.1,3\n0.2,5\n")
    result = person.run("map", "--output", "out", "grid.csv", "job.py", "--lr={lr}", "{depth}")
    assert (result.status, result.stdout) == (0, b""), result.stderr
    assert Path("out/0/stdout.txt").read_text().endswith(" --lr=0.1 3\n")
    assert Path("out/1/said.txt").read_text() == '{"lr": "0.2", "depth": "5"}'
    repeated = person.run("map", "--output", "out", "grid.csv", "job.py", "other", "words")
    assert repeated.status == 0 and "--overwrite replaces them" in " ".join(repeated.stderr.split())
    assert Path("out/0/stdout.txt").read_text().endswith(" --lr=0.1 3\n"), "the first run's"
    (saved_directory,) = Path("out").glob("potluck-*")
    assert (saved_directory / "1/stdout.txt").read_text().endswith(" other words\n")
    assert not (saved_directory / "1/said.txt").exists(), "it is the same"
    (task, *_) = person.run("ps", "--all", "--json").lines()[0]["tasks"]
    person.run("result", task["id"], "-o", "out", "--overwrite")
    assert Path("out/0/stdout.txt").read_text().endswith(" other words\n")


def test_each_item_has_its_file_of_the_pattern(person: CommandLine) -> None:
    Path("data").mkdir()
    for name in ("a", "b"):
        Path(f"data/{name}.txt").write_text(f"the text of {name}")
    Path("read.py").write_text("import sys; print(open(sys.argv[1]).read())")
    result = person.run("map", "--output", "out", "data/*.txt", "read.py")
    assert result.status == 0, result.stderr
    assert Path("out/a.txt/stdout.txt").read_text() == "the text of a\n"
    assert Path("out/b.txt/stdout.txt").read_text() == "the text of b\n"


def test_very_many_files_are_sent_as_one(
    person: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potluck.cli.request.inputs.MOST_INPUT_FILES", 4)
    Path("many/deep").mkdir(parents=True)
    for number in range(5):
        Path(f"many/deep/{number:03}.txt").write_text(f"{number}")
    command = ["--command", "many/deep/*.txt", "cat", "{}"]
    result = person.run("map", "--expected", "0.01s", *command)
    assert result.status == 0, result.stderr
    assert result.stdout.decode() == "".join(map(str, range(5)))


def test_json_is_a_stream_with_an_object_for_each_item(person: CommandLine) -> None:
    Path("runs.jsonl").write_text('{"lr": 1}\n')
    result = person.run("map", "--json", "runs.jsonl", "job.py")
    (item,) = [line for line in result.lines() if line["event"] == "item"]
    assert (item["item"], item["value"]) == (0, '{"lr": 1}')
    assert item["stdout"] == '0 {"lr": 1} {"lr": 1}\n'
    assert result.lines()[-1]["event"] == "finished"


def test_a_dry_run_says_when_it_would_start(person: CommandLine) -> None:
    Path("names.txt").write_text("Ada\nGrace\n")
    before = person.run("ps", "--json").lines()
    for command in (["map", "names.txt"], ["run"], ["submit"]):
        result = person.run(command[0], "--dry-run", *command[1:], "job.py")
        assert result.status == 0 and result.stdout.startswith(b"It would "), result.stderr
    never_result = person.run("run", "--dry-run", "--gpu", "2", "--model", "RTX 40*", "job.py")
    assert never_result.status == 1 and b"no device of the requested kind" in never_result.stdout
    assert person.run("ps", "--json").lines() == before


def test_submit_says_its_id_and_nothing_else(person: CommandLine) -> None:
    result = person.run(
        "submit", "--env", "POTLUCK_ITEM_VALUE=x", "--env", "POTLUCK_ITEM=0", "job.py"
    )
    assert result.status == 0
    task_id = result.stdout.decode().strip()
    assert task_id.startswith("task_") and "potluck logs -f" in result.stderr
    (document,) = person.run("result", task_id, "--wait", "--json").lines()
    assert (document["state"], document["stdout"]) == ("succeeded", "0 x\n")


def test_a_pattern_that_the_shell_filled_in_is_noticed(person: CommandLine) -> None:
    Path("a.txt").write_text("a")
    Path("b.txt").write_text("b")
    result = person.run("map", "a.txt", "b.txt", "job.py")
    assert result.status == 64 and "Put the pattern in quotes" in result.stderr
    alone = person.run("map", "a.txt")
    assert alone.status == 64 and "`potluck map ITEMS SCRIPT`" in " ".join(alone.stderr.split())
    twice = person.run("map", "-", "-")
    assert twice.status == 64 and "would be read from stdin" in twice.stderr
    late_result = person.run("map", "a.txt", "--command", "echo")
    assert late_result.status == 64 and "Options go before ITEMS" in late_result.stderr
