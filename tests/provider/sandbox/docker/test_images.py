"""Tasks in images: their own command or another one, never their own rights."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from potluck.model.task import MIB, EndReason
from potluck.provider.sandbox.docker.docker import DockerDriver
from potluck.provider.sandbox.driver import RunOutcome
from tests.provider.sandbox.conftest import confinement
from tests.provider.sandbox.docker.engine import Started
from tests.provider.sandbox.docker.image import BARE, NAME, Registry, bring


class Box:
    """A driver with the image there, and what its last run said."""

    def __init__(self, driver: DockerDriver, engine: Started) -> None:
        self.driver = driver
        self.engine = engine
        self.said = b""

    async def run(self, *command: str, **settings: object) -> RunOutcome:
        output = bytearray()

        async def listen(_: str, data: bytes) -> None:
            output.extend(data)

        image = {"image": NAME, **settings}
        outcome = await self.driver.run(confinement(command=command, **image), listen)
        self.said = bytes(output)
        return outcome


@pytest.fixture(scope="module")
def box(docker: Started, tmp_path_factory: pytest.TempPathFactory) -> Box:
    return asyncio.run(_box(docker, tmp_path_factory.mktemp("box")))


async def _box(engine: Started, directory: Path) -> Box:
    await bring(engine)
    driver = engine.driver(directory)
    await driver.probe()
    return Box(driver, engine)


async def test_an_image_runs_its_own_command_with_its_own_variables(box: Box) -> None:
    outcome = await box.run()
    assert (outcome.reason, outcome.exit_code) == (EndReason.EXIT_STATUS, 5), outcome
    assert box.said == b"hello from the image\n"


async def test_a_command_takes_the_place_of_the_images_and_has_the_same_walls(box: Box) -> None:
    script = (
        "echo $PWD $HOME $WORD $GREETING; id -u; cat /proc/self/status; ls / /sys; cat given;"
        "touch /x; touch /bin/x; touch /data/kept && touch /tmp/too && echo mine; ls -a /work"
    )
    outcome = await box.run(script, environment={"WORD": "said"}, files={"given": b"a file\n"})
    assert outcome.reason is EndReason.COMPLETED, box.said
    output = box.said.decode()
    first, uid, *_ = output.splitlines()
    assert first == "/work /work said hello"
    assert int(uid) >= 0x7000_0000
    assert "CapEff:\t0000000000000000" in output
    assert "Seccomp:\t2" in output and "NoNewPrivs:\t1" in output
    assert "a file\n" in output and "mine\n" in output
    assert output.count("Read-only file system") == 2
    assert "checked" not in output, "no health check of the image's is run"


async def test_an_image_reads_its_stdin(box: Box, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("Bob\n")
    outcome = await box.run("read name; echo hello $name; cat", stdin=tmp_path / "given")
    assert (outcome.reason, box.said) == (EndReason.COMPLETED, b"hello Bob\n"), outcome


async def test_an_image_without_a_command_needs_one(box: Box) -> None:
    outcome = await box.run(image=BARE)
    assert (outcome.reason, box.said) == (EndReason.INPUT_FAILED, b"")
    assert outcome.detail == f"neither the image {BARE} nor the task has a command"
    assert (await box.run("/bin/true", image=BARE)).reason is EndReason.COMPLETED


async def test_a_volume_of_an_image_has_the_disk_limit(box: Box) -> None:
    fill = "cat /dev/zero > /data/big; sleep 60"
    outcome = await box.run(fill, disk_bytes=4 * MIB)
    assert outcome.reason is EndReason.DISK_LIMIT


async def test_the_engine_never_knows_a_variable_nor_obeys_one_of_the_images(box: Box) -> None:
    secret = {"TOKEN": "swordfish", "LD_PRELOAD": "/work/hook.so"}
    name = "attempt_secret"
    running = asyncio.create_task(box.run("sleep 60", environment=secret, name=name))
    try:
        inspected = await _inspected(box, name)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert "swordfish" not in inspected and "/work/hook.so" not in inspected
    variables = dict(
        variable.partition("=")[::2] for variable in json.loads(inspected)["Config"]["Env"]
    )
    assert (variables["LD_PRELOAD"], variables["NVIDIA_VISIBLE_DEVICES"]) == ("", "")


async def test_a_missing_image_is_declined_unless_it_may_be_pulled(
    box: Box, tmp_path: Path
) -> None:
    registry = TestServer(Registry().app(), host="127.0.0.1")
    async with registry:
        name = f"127.0.0.1:{registry.port}/box"
        outcome = await box.run(image=name)
        assert (outcome.reason, outcome.exit_code) == (EndReason.DECLINED, None)
        assert outcome.detail.startswith(f"The node does not have the image {name} ")
        assert "pull_images=yes" in outcome.detail
        fetching = DockerDriver(tmp_path, "other", box.engine.socket, may_pull=lambda: True)
        await fetching.probe()
        box = Box(fetching, box.engine)
        outcome = await box.run(image=f"{name}:missing")
        assert outcome.reason is EndReason.INPUT_FAILED
        outcome = await box.run(image=name)
        assert (outcome.reason, box.said) == (EndReason.COMPLETED, b"fetched\n"), outcome


@pytest.mark.long
async def test_images_run_in_every_engine(engine: Started, tmp_path: Path) -> None:
    box = await _box(engine, tmp_path)
    outcome = await box.run()
    assert (outcome.reason, outcome.exit_code) == (EndReason.EXIT_STATUS, 5), outcome
    assert box.said == b"hello from the image\n"
    outcome = await box.run("touch /x")
    assert outcome.reason is EndReason.EXIT_STATUS


async def _inspected(box: Box, name: str) -> str:
    """All that the engine knows of the run, while that lives."""
    connector = aiohttp.UnixConnector(path=str(box.engine.socket))
    async with aiohttp.ClientSession(connector=connector) as session:
        while True:
            for container in await box.engine.api.labelled(f"potluck.run={name}"):
                async with session.get(f"http://engine/containers/{container}/json") as response:
                    if response.ok and (await response.json())["State"]["Running"]:
                        return await response.text()
            await asyncio.sleep(0.02)
