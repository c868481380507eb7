"""A whole provider with an engine beside bubblewrap: images for its owner, and those that he names
for others."""

import asyncio
from pathlib import Path
from typing import Any

from tests.processes import Api, ProviderProcess, ServerProcess, await_true
from tests.sandbox.docker.engine import Started
from tests.sandbox.docker.image import NAME, bring
from tests.wallets import Wallet


def test_images_run_beside_bubblewrap_and_others_get_those_that_are_named(
    docker: Started, tmp_path: Path
) -> None:
    asyncio.run(bring(docker))
    place = f"unix://{docker.socket}"
    with (
        ServerProcess(tmp_path, POTLUCK_REGISTRATION="open") as server,
        ProviderProcess(
            tmp_path / "p1",
            server,
            POTLUCK_PROVIDER_DOCKER_URL=place,
            POTLUCK_PROVIDER_TERMS_SECONDS="0.05",
        ),
    ):
        owner = server.client()
        plain = owner.finished(owner.submit("print('by bubblewrap')"))
        assert plain["state"] == "succeeded"
        own = owner.finished(_submit(owner, "echo $WORD > output/said; cat output/said"))
        assert (own["state"], owner.log(own["id"])) == ("succeeded", "said\n"), own
        files = owner.get(f"/v1/tasks/{own['id']}/files")["files"]
        assert [(file["path"], file["blob"]["size_bytes"]) for file in files] == [("said", 5)]

        stranger = server.client(server.sign_in(Wallet("stranger")))
        waiting = _submit(stranger, "echo mine too")
        await_true(lambda: _reasons(stranger, waiting), "it is declined")
        assert _reasons(stranger, waiting)[0] == "declined"
        (tmp_path / "p1/provider/provider.toml").write_text('images = ["potluck-test-*"]\n')
        assert stranger.finished(waiting)["state"] == "succeeded"


def _submit(client: Api, command: str) -> str:
    spec = {
        "kind": "container",
        "image": NAME,
        "command": [command],
        "environment": {"WORD": "said"},
    }
    answer = client.post("/v1/tasks", {"spec": spec})
    assert "id" in answer, answer
    return str(answer["id"])


def _reasons(client: Api, task_id: str) -> list[Any]:
    attempts = client.get(f"/v1/tasks/{task_id}/attempts")["attempts"]
    return [attempt["reason"] for attempt in attempts if attempt["reason"]]
