"""What owners type about this machine, with a provider's real control socket behind it."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.cli.provider.resolve_device import DeviceChoice, pick_devices
from potluck.model.device import Availability, Standing
from potluck.model.error import InvalidInput, NotFound
from potluck.model.node import SandboxReport
from potluck.model.terms import DeviceTerms
from potluck.provider.control.message import (
    CommandRefused,
    Drain,
    InEffect,
    Leave,
    Reclaim,
    Reread,
    ShowStatus,
)
from potluck.provider.data_directory import known_urls, save_node_id
from potluck.provider.owner.file import NodeLimits
from tests.cli.command_line import CommandLine, Finished, InProcess
from tests.cli.fake_provider import BIG, NODE, SMALL, TASK, FakeProvider, a_device, a_status
from tests.cli.pseudo_terminal import Terminal

CHOICES = [
    DeviceChoice(1, "GPU-aa11", "NVIDIA GeForce RTX 4090"),
    DeviceChoice(2, "GPU-aa22", "NVIDIA GeForce GTX 1060", "device_1"),
    DeviceChoice(3, "GPU-bb33", "NVIDIA GeForce GTX 1060"),
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data" / "provider"


@pytest.fixture
def provider(directory: Path) -> Iterator[FakeProvider]:
    with FakeProvider(a_status()).running(directory) as fake:
        yield fake


@pytest.fixture
def owner(tmp_path: Path) -> CommandLine:
    user = InProcess(tmp_path / "config")
    user.variables["POTLUCK_DATA_DIR"] = str(tmp_path / "data")
    return user


def told(owner: CommandLine, *arguments: str) -> str:
    result = owner.run("provider", *arguments)
    assert result.status == 0, result.stderr
    return result.stdout.decode()


def refused(owner: CommandLine, *arguments: str) -> Finished:
    result = owner.run("provider", *arguments)
    assert result.status != 0
    return result


def in_file(directory: Path) -> dict[str, Any]:
    return tomllib.loads((directory / "provider.toml").read_text())


@pytest.mark.parametrize(
    ("word", "uuid"),
    [
        ("1", "GPU-aa11"),
        ("gpu-AA22", "GPU-aa22"),  # whole, whatever its case
        ("GPU-b", "GPU-bb33"),  # its beginning
        ("4090", "GPU-aa11"),  # no number of a device, so a piece of a model
        ("device_1", "GPU-aa22"),
    ],
)
def test_a_device_has_many_names(word: str, uuid: str) -> None:
    assert pick_devices([word, word], CHOICES) == (uuid,)


def test_an_ambiguous_or_unknown_name_is_reported() -> None:
    with pytest.raises(InvalidInput, match="matches 2 devices: 2 NVIDIA GeForce GTX 1060"):
        pick_devices(["1060"], CHOICES)
    with pytest.raises(NotFound) as error_info:
        pick_devices([""], CHOICES)
    assert "GPU-aa11" in error_info.value.hint


def test_status_tells_all_on_one_screen(owner: CommandLine, provider: FakeProvider) -> None:
    lines = told(owner, "status").splitlines()
    assert lines[0].startswith("attic at https://pool.example:8470 · up 3 h 3 min")
    assert lines[3].split("  ")[1] == "GeForce RTX 4090"
    for figure in ("available", " 0.25 ", "1 task", "97 %", "71 °C", "310 W", "12 of 24 GiB"):
        assert figure in lines[3]
    assert "paused" in lines[4]
    assert "2: Its owner has paused it." in lines
    assert any(line.startswith(f"{TASK}  running") for line in lines)
    assert "provider.toml" in lines[-1]
    (document,) = owner.run("provider", "status", "--json").lines()
    assert [device["status"]["uuid"] for device in document["devices"]] == [BIG, SMALL]


def test_status_in_a_terminal_of_80_columns_fits(
    owner: CommandLine, provider: FakeProvider
) -> None:
    owner.variables["COLUMNS"] = "80"
    with Terminal(owner, "provider", "status") as terminal:
        screen = terminal.until("provider.toml")
    assert "GeForce RTX 4090" in screen and "GeForce GTX 1060" in screen
    assert max(len(line) for line in screen.splitlines()) <= 80


def test_status_shows_problems_and_foreign_devices(
    owner: CommandLine, provider: FakeProvider
) -> None:
    foreign = replace(a_device(BIG, "RTX"), standing=Standing.FOREIGN)
    provider.status = a_status(problem="In provider.toml: price.", devices=(foreign,))
    output = told(owner, "status")
    assert "In provider.toml: price." in output
    assert "may not offer RTX: foreign" in output


def test_status_shows_settings_not_in_effect_and_a_missing_sandbox(
    owner: CommandLine, provider: FakeProvider
) -> None:
    assert "without isolation" not in told(owner, "status")
    capped = replace(a_device(BIG, "RTX"), refusal="It takes 100 to 350 W.")
    provider.status = a_status(devices=(capped,), sandbox=SandboxReport("none"))
    for command in ("status", "explain"):
        output = " ".join(told(owner, command).split())
        assert "1: It takes 100 to 350 W." in output and "they run without isolation" in output
        assert "still in effect" not in output
    provider.status = a_status(pythons_problem="Pythons cannot be fetched: a:1 did not answer.")
    assert "Pythons cannot be fetched: a:1 did not answer." in told(owner, "status")
    provider.status = a_status(limits=NodeLimits(sandbox="none"))
    for command in ("status", "explain"):
        assert "You set sandbox=none; bwrap is still in effect." in told(owner, command)


def test_status_is_looked_at_again_until_ctrl_c(owner: CommandLine, provider: FakeProvider) -> None:
    with Terminal(owner, "provider", "status", "--watch") as terminal:
        terminal.until("provider.toml")
        provider.status = a_status(name="cellar")
        terminal.until("cellar at")
        terminal.press("\x03")
        assert terminal.status() == 0


def test_status_tells_of_another_version(owner: CommandLine, provider: FakeProvider) -> None:
    assert "server 0" not in told(owner, "status").splitlines()[0]
    provider.status = a_status(server_version="0.9.0")
    assert "potluck 0.1.0, server 0.9.0" in told(owner, "status").splitlines()[0]


def test_without_a_provider_status_says_how_to_start_one(owner: CommandLine) -> None:
    result = refused(owner, "status")
    assert result.status == 69
    assert "No provider runs" in result.stderr and "potluck provide URL" in result.stderr


def test_changed_settings_are_saved_and_sent_to_the_provider(
    owner: CommandLine, provider: FakeProvider, directory: Path
) -> None:
    output = told(owner, "set", "price=0.50", "hours=mon-fri 18:00-08:00", "kinds=script")
    assert "price: 0.5\n" in output and "In effect now." in output
    told(owner, "set", "memory_share=80%", "--device", "GTX")
    file_values = in_file(directory)
    assert (file_values["price"], file_values["hours"], file_values["kinds"]) == (
        "0.5",
        "mon-fri 18:00-08:00",
        ["script"],
    )
    assert file_values["device"] == {SMALL: {"memory_share": 0.8}}
    assert provider.asked.count(Reread()) == 2
    told(owner, "set", "price=")
    assert "price" not in in_file(directory), "back to the default"


def test_set_without_arguments_shows_every_key_and_its_source(
    owner: CommandLine, provider: FakeProvider
) -> None:
    told(owner, "set", "grace=1m")
    told(owner, "set", "fractions=4", "--device", "2")
    (document,) = owner.run("provider", "set", "--json").lines()
    assert document["terms"]["grace"] == {"value": "60s", "source": "provider.toml"}
    assert document["terms"]["price"] == {"value": "0.25", "source": "start options"}
    assert document["terms"]["fractions"] == {"value": "", "source": "default"}
    assert f"Only {SMALL}: fractions=4" in told(owner, "set")
    (of_device,) = owner.run("provider", "set", "--device", "2", "--json").lines()
    assert of_device["terms"]["fractions"] == {"value": "4", "source": "its own table"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["prize=3"], "There are: price, paused"),
        (["price=much"], "Write it like 2 or 0.25"),
        (["price"], "price has no value."),
        (["cores=2", "--device", "1"], "applies to the whole machine"),
        (["memory_share=7"], "Write it like memory_share=0.8"),
        (["--device", "1", "--device", "2"], "one device can be shown at a time"),
    ],
)
def test_a_wrong_word_changes_nothing_and_says_what_to_write(
    owner: CommandLine, provider: FakeProvider, directory: Path, arguments: list[str], sentence: str
) -> None:
    result = refused(owner, "set", *arguments)
    assert result.status == 64
    assert sentence in result.stderr
    assert not (directory / "provider.toml").exists()


def test_a_file_that_is_broken_is_not_made_worse(
    owner: CommandLine, provider: FakeProvider, directory: Path
) -> None:
    (directory / "provider.toml").write_text("price = \n# mine")
    assert refused(owner, "set", "price=1").status == 78
    assert (directory / "provider.toml").read_text() == "price = \n# mine"


def test_pause_and_resume(owner: CommandLine, provider: FakeProvider, directory: Path) -> None:
    assert "Paused NVIDIA GeForce GTX 1060; running tasks will finish." in told(owner, "pause", "2")
    assert in_file(directory)["device"] == {SMALL: {"paused": True}}
    (document,) = owner.run("provider", "pause", "--json").lines()
    assert document == {"paused": "all", "is_now": False, "in_force": "now"}
    assert in_file(directory)["paused"] is True
    assert "Resumed all devices." in told(owner, "resume")
    assert in_file(directory)["paused"] is False
    assert not any(isinstance(request, Reclaim) for request in provider.asked)


@pytest.mark.parametrize("arguments", [["reclaim", "4090"], ["pause", "4090", "--now"]])
def test_a_reclaim_is_sent_first_even_if_the_file_is_invalid(
    owner: CommandLine, provider: FakeProvider, directory: Path, arguments: list[str]
) -> None:
    (directory / "provider.toml").write_text("price = \n# mine")
    told(owner, *arguments)
    requests = [request for request in provider.asked if not isinstance(request, ShowStatus)]
    assert requests == [Reclaim((BIG,))]


def test_the_cost_of_stopping_is_shown_unless_declared(
    owner: CommandLine, provider: FakeProvider
) -> None:
    assert "lowers this machine's reliability" in owner.run("provider", "reclaim", "4090").stderr
    (device, _) = provider.status.devices
    declared = replace(device.description, terms=DeviceTerms(is_reclaimable=True))
    provider.status = a_status(devices=(replace(device, description=declared),))
    result = owner.run("provider", "reclaim", "4090")
    assert "running tasks are stopped. In effect now." in result.stdout.decode()
    assert not result.stderr


def test_a_silent_server_is_no_reason_to_wait(owner: CommandLine, provider: FakeProvider) -> None:
    provider.answers = (InEffect(is_known_to_server=False),)
    assert "when the server answers again" in told(owner, "pause")
    provider.answers = (CommandRefused("It is leaving.", "Wait."),)
    assert "It is leaving." in refused(owner, "pause").stderr


def test_without_a_provider_the_file_is_for_the_next_start(
    owner: CommandLine, directory: Path
) -> None:
    assert "it takes effect when one starts" in told(owner, "pause")
    assert in_file(directory) == {"paused": True}
    (directory / "provider.toml").unlink()
    assert told(owner, "reclaim").startswith("Paused all devices. No provider is running here")
    assert in_file(directory) == {"paused": True}


def test_drain_waits_and_says_for_how_many_tasks(
    owner: CommandLine, provider: FakeProvider
) -> None:
    provider.answers = (a_status(is_draining=True), a_status(attempts=()), InEffect())
    result = owner.run("provider", "drain")
    assert result.stdout.decode().startswith("Drained")
    assert "waiting for 1 task" in result.stderr
    assert Drain() in provider.asked


def test_a_drain_is_not_taken_back(
    owner: CommandLine, provider: FakeProvider, directory: Path
) -> None:
    provider.status = a_status(is_draining=True)
    assert "cannot be undone" in told(owner, "resume")
    assert in_file(directory) == {"paused": False}
    assert "In effect now." in told(owner, "pause")


def test_leave_asks_first(owner: CommandLine, provider: FakeProvider, directory: Path) -> None:
    unasked = refused(owner, "leave")
    assert unasked.status == 78 and "--yes" in unasked.stderr
    with Terminal(owner, "provider", "leave", "--now") as terminal:
        terminal.answer("at https://pool.example:8470 permanently: running tasks are stopped", "no")
        assert terminal.status() == 130
    assert provider.asked == [ShowStatus()] * 2
    provider.asked.clear()
    told(owner, "set", "price=1")
    assert "key there is deleted" in told(owner, "leave", "--yes")
    assert (directory / "provider.toml").exists()
    with Terminal(owner, "provider", "leave", "--now", "--forget-terms") as terminal:
        terminal.answer("[y/N]", "y")
        assert "Left the pool" in terminal.rest()
    requests = [request for request in provider.asked if not isinstance(request, ShowStatus)]
    assert requests == [Reread(), Leave(), Leave(is_now=True)]
    assert not (directory / "provider.toml").exists()


def test_an_unregistered_node_cannot_leave(owner: CommandLine) -> None:
    result = refused(owner, "leave", "--yes", "--server", "http://127.0.0.1:1")
    assert result.status == 66 and "not in the pool" in result.stderr
    assert "is in no pool" in refused(owner, "leave", "--yes").stderr


def test_only_the_named_pool_is_left(owner: CommandLine, provider: FakeProvider) -> None:
    result = refused(owner, "leave", "--yes", "--server", "https://other.example")
    assert "at https://pool.example:8470, not at https://other.example" in result.stderr
    assert not any(isinstance(request, Leave) for request in provider.asked)


def test_providers_without_a_profile_are_asked_to_sign_in(
    owner: CommandLine, directory: Path
) -> None:
    directory.mkdir(parents=True)
    assert "No server is configured" in refused(owner, "earnings").stderr
    save_node_id(directory, "http://127.0.0.1:1", NODE)
    for command in ("earnings", "keys"):
        result = refused(owner, command)
        assert "potluck login http://127.0.0.1:1 --browser`" in result.stderr, "no wallet is here"


def test_without_a_provider_the_only_known_pool_is_left(
    owner: CommandLine, directory: Path
) -> None:
    directory.mkdir(parents=True)
    owner.variables["POTLUCK_URL"] = "http://127.0.0.1:2"
    save_node_id(directory, "http://127.0.0.1:1", NODE)
    told(owner, "leave", "--yes", "--anyway")
    assert known_urls(directory) == []
    for port in (3, 4):
        save_node_id(directory, f"http://127.0.0.1:{port}", NODE)
    result = refused(owner, "leave", "--yes", "--anyway")
    assert result.status == 64 and "--server URL" in result.stderr


@pytest.mark.parametrize("arguments", [["leave", "--yes"], ["drain"]])
def test_a_provider_that_is_killed_on_the_way_has_not_done_it(
    owner: CommandLine, provider: FakeProvider, arguments: list[str]
) -> None:
    provider.answers = (a_status(is_draining=True),)
    result = refused(owner, *arguments)
    assert result.status == 69 and "stopped before it was done" in result.stderr
    assert not result.stdout


def test_a_reclaimed_device_stays_paused_if_the_provider_is_killed(
    owner: CommandLine, provider: FakeProvider, directory: Path
) -> None:
    provider.answers = (a_status(),)
    assert "it takes effect when one starts" in told(owner, "reclaim")
    assert in_file(directory) == {"paused": True}


def test_explain_shows_local_reasons_without_a_server(
    owner: CommandLine, provider: FakeProvider
) -> None:
    provider.status = a_status(silent_seconds=4000.0, is_draining=True, problem="The file is odd.")
    result = owner.run("provider", "explain")
    output = result.stdout.decode()
    for reason in ("The file is odd.", "has not answered for 1 h", "draining", "has paused it"):
        assert reason in output
    assert "not signed in" in result.stderr
    (as_json,) = owner.run("provider", "explain", "--json").lines()
    assert as_json["scheduler"] is None and len(as_json["here"]) == 5


def test_every_reason_for_being_away_has_words(owner: CommandLine, provider: FakeProvider) -> None:
    absences = [
        availability for availability in Availability if availability is not Availability.AVAILABLE
    ]
    provider.status = a_status(
        devices=tuple(
            a_device(f"GPU-{availability}", "RTX", availability=availability, why="")
            for availability in absences
        )
    )
    output = told(owner, "status")
    assert output.count("takes no new work") == len(absences)
    assert "outside hours" in output and "in use" in output
