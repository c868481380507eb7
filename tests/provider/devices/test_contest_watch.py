"""Challenges are answered on the device that they name; the owner hears which get no work."""

from pathlib import Path

import pytest

from potluck.model.device import DeviceKind, Standing
from potluck.provider.announcement import Announcement, DeviceRegained, DeviceUnbound
from potluck.provider.detect.devices import detect_devices
from potluck.provider.detect.types import FoundDevice
from potluck.provider.devices.contest_watch import DeviceWatch, plain_product, product_on
from potluck.provider.server.server_client import open_node_client
from potluck.wire.device_challenge import DeviceChallenge, make_factors, matrix_rows, unpack_product
from potluck.wire.provider import HeartbeatAnswer, UnboundDevice
from tests.conftest import need
from tests.provider.builders import KEY, settings_for
from tests.provider.fake_server import FakeServer
from tests.provider.server.connected_client import REGISTRATION, during

SEED = "5eed" * 16
(CPU,) = REGISTRATION.description.devices
FOUND = {CPU.uuid: FoundDevice(CPU.kind, CPU.vendor, CPU.model, CPU.memory_bytes, CPU.interface)}


def test_a_plain_processor_multiplies() -> None:
    left, right = map(matrix_rows, make_factors(SEED))
    product = unpack_product(plain_product(SEED))
    for row, column in ((0, 0), (3, 127), (127, 64)):
        expected = sum(left[row][index] * right[index][column] for index in range(128))
        assert product[row][column] == expected


async def test_a_device_with_a_driver_computes_the_same_on_it(tmp_path: Path) -> None:
    (device,) = (await detect_devices(tmp_path, 60)).found.values()
    if device.interface != "opencl":
        need("an OpenCL driver (PoCL)")
    assert await product_on(device, SEED, 60) == plain_product(SEED)


@pytest.mark.parametrize("opencl_uuid", ["", "gpu-of-another-machine"])
async def test_a_card_that_opencl_does_not_know_has_no_answer(opencl_uuid: str) -> None:
    card = FoundDevice(DeviceKind.GPU, "V", "M", 1, "cuda", opencl_uuid=opencl_uuid)
    assert await product_on(card, SEED, 60) is None


async def test_a_challenge_is_answered_once_and_only_for_ones_own(server: FakeServer) -> None:
    settings = settings_for(server.url, Path("/nonexistent"))
    async with open_node_client(
        settings, KEY, lambda: REGISTRATION, lambda _: None, lambda _: None
    ) as link:
        await link.register()
        watch = DeviceWatch(link, FOUND, lambda _: None)
        challenge = DeviceChallenge(CPU.uuid, SEED, 30.0)
        foreign = DeviceChallenge("GPU-foreign", "00" * 32, 30.0)
        for _ in range(3):  # the server repeats it until it has an answer
            watch.hear(HeartbeatAnswer([], [foreign, challenge]))
        async with during(watch.run()):
            await server.until(lambda: bool(server.answers), "an answer")
            another = DeviceChallenge(CPU.uuid, "11" * 32, 30.0)
            watch.hear(HeartbeatAnswer([], [challenge, another]))
            await server.until(lambda: len(server.answers) == 2, "another answer")
    assert [(answer.uuid, answer.seed) for answer in server.answers] == [
        (CPU.uuid, SEED),
        (CPU.uuid, "11" * 32),
    ]
    assert server.answers[0].product == plain_product(SEED)


def test_the_owner_hears_of_every_change_once() -> None:
    announcements: list[Announcement] = []
    watch = DeviceWatch(None, FOUND, announcements.append)  # type: ignore[arg-type]
    contested = UnboundDevice(CPU.uuid, Standing.CONTESTED)
    foreign = UnboundDevice(CPU.uuid, Standing.FOREIGN)
    for contests in ([], [contested], [contested], [foreign], [foreign], [], []):
        watch.note(contests)
    assert announcements == [
        DeviceUnbound(CPU.uuid, CPU.model, Standing.CONTESTED),
        DeviceUnbound(CPU.uuid, CPU.model, Standing.FOREIGN),
        DeviceRegained(CPU.uuid, CPU.model),
    ]
