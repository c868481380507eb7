"""An owner's word holds at once, while everything runs: a real server and real providers.

A command comes back when the server knows (it says so), which is one early heartbeat later: what
is asserted right after it is not waited for.
"""

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from potluck.model.terms import TermsChange
from potluck.provider.control.client import ask
from potluck.provider.control.message import (
    CommandRefused,
    Drain,
    InEffect,
    Leave,
    ProviderStatus,
    Reclaim,
    Reread,
    ShowStatus,
)
from potluck.provider.owner.file import change_file, terms_file
from potluck.provider.server.leave import leave_for_good
from tests.control_request import ask_once
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true, potluck

QUICK = {
    **FAST_PROVIDER,
    "POTLUCK_PROVIDER_TERMS_SECONDS": "0.1",
    "POTLUCK_PROVIDER_SAMPLE_SECONDS": "0.3",
}
HELLO = "print('hello')"
# Says when it is asked to end, and ends then.
POLITE = """
import signal, sys, time
def end(*_):
    print("asked to end", flush=True)
    time.sleep(0.2)
    print("ended by itself", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("begun", flush=True)
time.sleep({seconds})
print("done", flush=True)
"""


class Machine:
    """A provider, as its owner has it: a directory, a file and a socket."""

    def __init__(self, directory: Path, server: ServerProcess, name: str = "machine") -> None:
        self.data = directory / "provider"
        name_setting = {"POTLUCK_PROVIDER_NAME": name}
        self.process = ProviderProcess(directory, server, **QUICK, **name_setting)
        self.node_id = self.process.node_id
        self.client = server.client()

    def write(self, text: str) -> None:
        """As somebody with an editor."""
        terms_file(self.data).write_text(text)

    def change(self, **changes: Any) -> None:
        """As a command does it: the file, then a word to the provider."""
        change_file(terms_file(self.data), TermsChange(**changes))
        assert ask_once(self.data, Reread()) == InEffect(is_known_to_server=True)

    def status(self) -> ProviderStatus:
        status = ask_once(self.data, ShowStatus())
        assert isinstance(status, ProviderStatus)
        return status

    @property
    def node(self) -> Any:
        return self.client.get(f"/v1/nodes/{self.node_id}")

    @property
    def device(self) -> Any:
        (device,) = self.node["devices"]
        return device

    def ended(self) -> int:
        """The exit status of a provider that ends by itself."""
        with self.process.process as process:
            return process.wait(20)

    def command(self, *arguments: str) -> Any:
        """`potluck provider …`, and what it says as JSON."""
        process = subprocess.run(
            potluck("provider", *arguments, "--data-dir", self.data.parent, "--json"),
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert process.returncode == 0, (process.stdout, process.stderr)
        return json.loads(process.stdout.splitlines()[-1])

    def waits_because(self, task_id: str, code: str) -> None:
        """The scheduler says so itself, of a task that waits."""

        def look() -> bool:
            explanation = self.client.get(f"/v1/tasks/{task_id}/explain")
            return explanation["state"] == "queued" and code in [
                refusal["code"] for refusal in explanation.get("refusals", [])
            ]

        await_true(look, f"{task_id} waits because of {code}", 10)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("owner")) as server:
        yield server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, server: ServerProcess) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("machine"), server)
    with machine.process:
        yield machine


@pytest.fixture
def machine(shared: Machine) -> Iterator[Machine]:
    """The shared one, as if its owner had said nothing yet; and nothing waits."""
    yield shared
    terms_file(shared.data).unlink(missing_ok=True)
    assert ask_once(shared.data, Reread()) == InEffect()
    tasks = shared.client.get("/v1/tasks?state=queued")
    for task in tasks["tasks"]:
        shared.client.post(f"/v1/tasks/{task['id']}/cancel", {})


def test_a_pause_lets_what_runs_go_on_and_nothing_new_begin(machine: Machine) -> None:
    client = machine.client
    running = client.submit(POLITE.format(seconds=3))
    await_true(lambda: "begun" in client.log(running), "it runs")
    machine.change(is_paused=True)
    assert (machine.device["availability"], machine.status().attempts[0].phase) == (
        "paused",
        "running",
    )
    waiting = client.submit(HELLO, requirements={"cores": 1})
    assert client.finished(running)["state"] == "succeeded"
    machine.waits_because(waiting, "device_away")
    machine.command("resume")
    assert machine.device["availability"] == "available"
    assert client.finished(waiting)["state"] == "succeeded"


def test_a_remote_pause_applies_before_the_node_fetches_it(machine: Machine) -> None:
    client = machine.client
    response = client.call("PATCH", f"/v1/nodes/{machine.node_id}/terms", b'{"is_paused":true}')
    assert (response.status, response.json()["devices"][0]["availability"]) == (202, "paused")
    waiting = client.submit(HELLO)
    await_true(lambda: not machine.node.get("wishes"), "the node says that it is done", 5)
    assert "paused = true" in terms_file(machine.data).read_text()
    assert machine.device["availability"] == "paused", "and stays so"
    machine.waits_because(waiting, "device_away")
    resumed = client.call("PATCH", f"/v1/nodes/{machine.node_id}/terms", b'{"is_paused":null}')
    assert resumed.status == 202
    assert client.finished(waiting)["state"] == "succeeded"
    assert "paused" not in terms_file(machine.data).read_text()


def test_a_new_price_is_for_what_comes_next(machine: Machine) -> None:
    client = machine.client
    running = client.submit(POLITE.format(seconds=1.5))
    await_true(lambda: "begun" in client.log(running), "it runs")
    account_id = client.get("/v1/me")["id"]
    path, body = f"/v1/accounts/{account_id}/grants", b'{"amount_micro": 1000000000}'
    assert client.call("POST", path, body, Idempotency_Key="for a price").status < 300
    machine.change(price_micro_per_hour=3_600_000_000)
    assert machine.device["description"]["terms"]["price_micro_per_hour"] == 3_600_000_000
    (free,) = client.finished(running)["attempts"]
    assert free.get("charge_micro", 0) == 0, "what ran keeps its own"
    cheap, brief = {"max_price_micro_per_hour": 1_000_000}, {"run_seconds": 5}
    too_dear = client.submit(HELLO, requirements=cheap, limits=brief)
    machine.waits_because(too_dear, "price")
    machine.change(price_micro_per_hour=360_000_000)
    slow = "import time; time.sleep(0.3)"
    (paid,) = client.finished(client.submit(slow, limits=brief))["attempts"]
    assert paid["charge_micro"] > 0


def test_hours_close_and_open_a_device(machine: Machine) -> None:
    client, now = machine.client, datetime.now().astimezone()
    later, earlier = now + timedelta(hours=2), now - timedelta(hours=2)
    # Edited by hand: nobody tells the provider, which looks by itself.
    machine.write(f'hours = "{later:%H:%M}-{earlier:%H:%M}"  # not around now\n')
    # A registration that was under way may still bring the status from before.
    await_true(lambda: f"{later:%A %H:%M}" in machine.device["why"], "it is closed", 5)
    assert machine.device["availability"] == "outside_hours"
    waiting = client.submit(HELLO)
    machine.waits_because(waiting, "device_away")
    machine.write(f'hours = "{earlier:%H:%M}-{later:%H:%M}"\n')
    assert client.finished(waiting)["state"] == "succeeded"


@pytest.mark.parametrize(
    ("change", "requirements", "code"),
    [
        pytest.param({"cores": 1}, {"cores": 2}, "cores", id="cores"),
        pytest.param({"memory_bytes": 2**28}, {"memory_bytes": 2**29}, "memory", id="memory"),
        pytest.param({"disk_bytes": 2**24}, {"disk_bytes": 2**25}, "disk", id="disk"),
        pytest.param(
            {"memory_share": 0.01}, {"device_memory_bytes": 2**30}, "device_memory", id="share"
        ),
        pytest.param({"kinds": ("container",)}, {}, "task_kind", id="kinds"),
    ],
)
def test_limits_keep_out_what_does_not_fit(
    machine: Machine, change: dict[str, Any], requirements: dict[str, Any], code: str
) -> None:
    machine.change(**change)
    waiting = machine.client.submit(HELLO, requirements=requirements)
    machine.waits_because(waiting, code)
    (name,) = change
    machine.change(**{name: None})
    assert machine.client.finished(waiting)["state"] == "succeeded"


def test_owners_run_their_own_tasks_despite_their_lists(machine: Machine) -> None:
    machine.change(deny=(ServerProcess.wallet.address,), allow=("0x" + "12" * 20,))
    own_task = machine.client.submit(HELLO)
    assert machine.client.finished(own_task)["state"] == "succeeded"
    machine.change(deny=None, allow=None)


def test_a_broken_file_changes_nothing_and_is_reported(machine: Machine) -> None:
    machine.change(price_micro_per_hour=1_000_000)
    machine.write("price = 2\nprise = 3\n")
    await_true(lambda: "prise" in machine.status().problem, "it is told", 5)
    assert isinstance(ask_once(machine.data, Reread()), CommandRefused)
    assert machine.device["description"]["terms"]["price_micro_per_hour"] == 1_000_000
    # A change from elsewhere holds all the same, and is written when the file is mended.
    body = b'{"is_paused":true}'
    machine.client.call("PATCH", f"/v1/nodes/{machine.node_id}/terms", body)
    await_true(lambda: not machine.node.get("wishes"), "the node has heard it", 5)
    assert machine.device["availability"] == "paused"
    assert terms_file(machine.data).read_text() == "price = 2\nprise = 3\n"
    machine.write("price = 2\n")
    await_true(lambda: "paused = true" in terms_file(machine.data).read_text(), "written", 5)
    await_true(lambda: not machine.status().problem, "nothing is wrong any more", 5)
    assert machine.device["availability"] == "paused"


@pytest.mark.parametrize("is_declared", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_device_that_is_wanted_back_sends_its_task_elsewhere(
    machine: Machine, server: ServerProcess, tmp_path: Path, is_declared: bool
) -> None:
    client = machine.client
    machine.change(is_reclaimable=is_declared, grace_seconds=5.0)
    (tmp_path / "provider").mkdir()
    terms_file(tmp_path / "provider").write_text("paused = true\n")
    other = Machine(tmp_path, server, "elsewhere")
    with other.process:
        task_id = client.submit(POLITE.format(seconds=4))
        await_true(lambda: "begun" in client.log(task_id), "it runs here: the other is paused")
        machine.change(is_paused=True)
        responses = list(ask(machine.data, Reclaim()))
        assert responses[-1] == InEffect()
        assert "running" not in [attempt.phase for attempt in machine.status().attempts]
        other.change(is_paused=None)
        finished = client.finished(task_id)
    assert finished["state"] == "succeeded"
    first, second = finished["attempts"]
    assert (first["reason"], first["node_id"]) == ("reclaimed", machine.node_id)
    assert second["node_id"] == other.node_id
    log_page = client.get(f"/v1/tasks/{task_id}/logs?attempt=1")
    assert "asked to end" in _text(log_page) and "ended by itself" in _text(log_page)


def test_an_order_from_elsewhere_takes_the_device_back(machine: Machine) -> None:
    client = machine.client
    machine.change(is_reclaimable=True, grace_seconds=5.0)
    task_id = client.submit(POLITE.format(seconds=30))
    await_true(lambda: "begun" in client.log(task_id), "it runs")
    order = client.post(f"/v1/nodes/{machine.node_id}/orders", {"order": "reclaim"})
    assert "error" not in order, order
    await_true(lambda: client.task(task_id)["state"] == "queued", "it waits again", 10)
    assert machine.device["availability"] == "paused"
    client.post(f"/v1/tasks/{task_id}/cancel", {})


def test_hours_that_end_call_back_what_may_be_called_back(machine: Machine) -> None:
    client, now = machine.client, datetime.now().astimezone()
    machine.change(is_reclaimable=True, grace_seconds=5.0)
    task_id = client.submit(POLITE.format(seconds=30))
    await_true(lambda: "begun" in client.log(task_id), "it runs")
    begin, end = now + timedelta(hours=2), now + timedelta(hours=3)
    machine.change(hours=f"{begin:%H:%M}-{end:%H:%M}")
    await_true(lambda: client.task(task_id)["state"] == "queued", "it waits again", 10)
    assert "asked to end" in client.log(task_id)
    client.post(f"/v1/tasks/{task_id}/cancel", {})


def test_a_drained_node_finishes_what_runs_and_ends_well(
    server: ServerProcess, shared: Machine, tmp_path: Path
) -> None:
    client = shared.client
    drained = Machine(tmp_path, server, "drained")
    with ExitStack() as stack:
        stack.enter_context(drained.process)
        shared.change(is_paused=True)
        stack.callback(shared.change, is_paused=None)
        task_id = client.submit(POLITE.format(seconds=3))
        await_true(lambda: "begun" in client.log(task_id), "it runs")
        *on_the_way, last = ask(drained.data, Drain())
        assert last == InEffect()
        assert isinstance(on_the_way[0], ProviderStatus) and on_the_way[0].is_draining
        assert drained.ended() == 0
    assert client.finished(task_id)["state"] == "succeeded"
    assert client.call("GET", f"/v1/nodes/{drained.node_id}").status == 404, "it has left"


# Of one that does not run: tests/cli/provider/test_provider_real.py, too.
@pytest.mark.parametrize("is_running", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_leaving_removes_everything(
    server: ServerProcess, tmp_path: Path, is_running: bool
) -> None:
    machine = Machine(tmp_path, server, "leaver")
    with machine.process:
        machine.change(price_micro_per_hour=7)
        assert machine.node_id in _node_keys(machine)
        if is_running:
            responses = list(ask(machine.data, Leave()))
            assert responses[-1] == InEffect()
            assert machine.ended() == 0
        else:
            machine.process.stop()
            await leave_for_good(machine.data, server.url)
    left_names = {path.name for path in machine.data.iterdir()}
    assert not left_names & {"node-key", "control", "wishes.json", "environments"}
    assert not list((machine.data / "attempts").glob("*"))
    assert not list((machine.data / "delegations").glob("*"))
    assert "price" in terms_file(machine.data).read_text(), "the owner's own file stays"
    assert machine.client.call("GET", f"/v1/nodes/{machine.node_id}").status == 404
    assert machine.node_id not in _node_keys(machine), "its key is revoked"


def _node_keys(machine: Machine) -> list[str]:
    return [node_key["node_id"] for node_key in machine.client.get("/v1/me/node-keys")["node_keys"]]


def _text(page: Any) -> str:
    return b"".join(base64.b64decode(piece["data"]) for piece in page["pieces"]).decode()
