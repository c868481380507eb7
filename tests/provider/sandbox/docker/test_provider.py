"""A whole provider with an engine beside bubblewrap: images for its owner, and those that he names
for others."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import potluck
from potluck.consumer import Potluck
from tests.cli.command_line import CommandLine
from tests.processes import FAST, FAST_PROVIDER, Api, ProviderProcess, ServerProcess, await_true
from tests.provider.sandbox.docker.engine import Started, starting
from tests.provider.sandbox.docker.image import BARE, NAME, bring
from tests.wallets import Wallet


def test_images_run_beside_bubblewrap_and_strangers_get_allowed_images_only(
    docker: Started, tmp_path: Path
) -> None:
    asyncio.run(bring(docker))
    place = f"unix://{docker.socket}"
    with (
        ServerProcess(tmp_path, 0, **FAST, POTLUCK_REGISTRATION="open") as server,
        ProviderProcess(
            tmp_path / "p1",
            server,
            **FAST_PROVIDER,
            POTLUCK_PROVIDER_DOCKER_URL=place,
            POTLUCK_PROVIDER_TERMS_SECONDS="0.05",
        ),
    ):
        owner = server.client()
        plain = owner.finished(owner.submit("print('by bubblewrap')"))
        assert plain["state"] == "succeeded"
        own_task = owner.finished(_submit(owner, "echo $WORD > output/said; cat output/said"))
        assert (own_task["state"], owner.log(own_task["id"])) == ("succeeded", "said\n"), own_task
        files = owner.get(f"/v1/tasks/{own_task['id']}/files")["files"]
        assert [(file["path"], file["blob"]["size_bytes"]) for file in files] == [("said", 5)]

        person = CommandLine(tmp_path / "config", server.url, server.token)
        assert _example(person, tmp_path) == "15 lines, counted in a container\n"
        assert (tmp_path / "counted" / "lines").read_text().strip() == "15"

        stranger = server.client(server.sign_in(Wallet("stranger")))
        waiting = _submit(stranger, "echo mine too")
        await_true(lambda: _reasons(stranger, waiting), "it is declined")
        assert _reasons(stranger, waiting)[0] == "declined"
        (tmp_path / "p1/provider/provider.toml").write_text('images = ["potluck-test-*"]\n')
        assert stranger.finished(waiting)["state"] == "succeeded"


def _example(person: CommandLine, directory: Path) -> str:
    """What examples/container.sh prints, with an image that is here."""
    programs = directory / "bin"
    programs.mkdir()
    (programs / "potluck").write_text(f'#!/bin/sh\nexec {sys.executable} -m potluck "$@"\n')
    (programs / "potluck").chmod(0o755)
    variables = person.variables | {"IMAGE": BARE}
    variables["PATH"] = f"{programs}:{variables['PATH']}"
    script = Path(__file__).parents[4] / "examples" / "container.sh"
    process = subprocess.run(
        ["sh", script], cwd=directory, env=variables, capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0 and process.stdout, process.stderr
    return process.stdout


@potluck.task
def doubled(number: int) -> tuple[int, int]:
    """And which process it was, by the one that started it."""
    return 2 * number, os.getppid()


@pytest.mark.long
@pytest.mark.parametrize("sandbox", ["docker", "runsc"])
def test_everything_runs_in_containers_where_the_owner_says_so(
    docker: Started, tmp_path: Path, sandbox: str
) -> None:
    place = tmp_path / "p1"
    (place / "provider").mkdir(parents=True)
    (place / "provider/provider.toml").write_text(f'sandbox = "{sandbox}"\n')
    url = f"unix://{docker.socket}"
    with (
        ServerProcess(tmp_path) as server,
        ProviderProcess(place, server, **FAST_PROVIDER, POTLUCK_PROVIDER_DOCKER_URL=url),
        Potluck(server.url, server.token) as client,
    ):
        owner = server.client()
        node = owner.get("/v1/nodes")["nodes"][0]
        assert node["sandbox"]["driver"] == sandbox
        script = "import os; open('output/made', 'w').write(os.environ['POTLUCK_ITEM'])"
        array = owner.finished(owner.submit(script, items=3))
        assert array["state"] == "succeeded", array
        files = owner.get(f"/v1/tasks/{array['id']}/files")["files"]
        assert sorted(file["path"] for file in files) == ["0/made", "1/made", "2/made"]
        pairs = list(doubled.using(client=client).map(range(50)))
        assert [value for value, _ in pairs] == [2 * number for number in range(50)]
        assert {parent for _, parent in pairs} == {1}, "our first process started it"


@pytest.mark.long
def test_gvisor_without_control_groups_runs_its_owners_tasks_only(tmp_path: Path) -> None:
    place = tmp_path / "p1"
    (place / "provider").mkdir(parents=True)
    (place / "provider/provider.toml").write_text('sandbox = "runsc"\n')
    with (
        starting("docker+runsc", runsc_options=["--ignore-cgroups"]) as engine,
        ServerProcess(tmp_path, 0, **FAST, POTLUCK_REGISTRATION="open") as server,
        ProviderProcess(
            place, server, **FAST_PROVIDER, POTLUCK_PROVIDER_DOCKER_URL=f"unix://{engine.socket}"
        ),
    ):
        owner = server.client()
        node = owner.get("/v1/nodes")["nodes"][0]
        assert (node["sandbox"]["memory"], node["sandbox"]["processes"]) == ("none", "none")
        assert node["own_tasks_only"]
        stranger = server.client(server.sign_in(Wallet("stranger")))
        waiting = stranger.submit("print(len(bytearray(10**9)))")
        assert owner.finished(owner.submit("print(1)"))["state"] == "succeeded"
        await_true(lambda: _waits_for(stranger, waiting) == "own_tasks_only", "it has to wait")


def _waits_for(client: Api, task_id: str) -> str:
    return str((client.get(f"/v1/tasks/{task_id}")["waiting"] or {}).get("code"))


def _submit(client: Api, command: str) -> str:
    spec = {
        "kind": "container",
        "image": NAME,
        "command": [command],
        "environment": {"WORD": "said"},
    }
    submitted = client.post("/v1/tasks", {"spec": spec})
    assert "id" in submitted, submitted
    return str(submitted["id"])


def _reasons(client: Api, task_id: str) -> list[Any]:
    attempts = client.get(f"/v1/tasks/{task_id}/attempts")["attempts"]
    return [attempt["reason"] for attempt in attempts if attempt["reason"]]
