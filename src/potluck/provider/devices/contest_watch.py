"""The duty that proves contested devices to the server, and announces which get no work.

A challenge is computed on the device that it names: on cards, and on processors with an OpenCL
driver, in a child process, so that a driver that hangs or crashes ends only that. One that cannot
be computed (a card without an OpenCL driver) is logged and not answered.
"""

import asyncio
from collections.abc import Mapping, Sequence
from operator import mul

import structlog

from potluck.model.device import Standing
from potluck.provider.announcement import Announce, DeviceRegained, DeviceUnbound
from potluck.provider.detect.query_process import Unanswered, output_of, python_module
from potluck.provider.detect.types import FoundDevice
from potluck.provider.server.server_client import NodeServerClient
from potluck.wire.device_challenge import (
    PRODUCT_BYTES,
    ChallengeAnswer,
    ChallengeAnswers,
    DeviceChallenge,
    make_factors,
    matrix_rows,
    pack_product,
)
from potluck.wire.provider import HeartbeatAnswer, UnboundDevice

log = structlog.get_logger()


async def product_on(device: FoundDevice, seed: str, seconds: float) -> bytes | None:
    """None if the device cannot compute it in time."""
    if device.interface == "plain":
        return await asyncio.to_thread(plain_product, seed)
    if not device.opencl_uuid:
        return None
    command = python_module("potluck.provider.devices.opencl_product", device.opencl_uuid, seed)
    try:
        product = bytes.fromhex(await output_of(command, seconds))
    except (Unanswered, ValueError):
        return None
    return product if len(product) == PRODUCT_BYTES else None


def plain_product(seed: str) -> bytes:
    left, right = map(matrix_rows, make_factors(seed))
    columns = list(zip(*right, strict=True))
    return pack_product([[sum(map(mul, row, column)) for column in columns] for row in left])


class DeviceWatch:
    def __init__(
        self, link: NodeServerClient, devices: Mapping[str, FoundDevice], announce: Announce
    ) -> None:
        self._link = link
        self._devices = devices  # by uuid
        self._announce = announce
        self._unbound: dict[str, Standing] = {}
        self._heard: set[str] = set()
        self._challenges: asyncio.Queue[DeviceChallenge] = asyncio.Queue()

    def standings(self) -> Mapping[str, Standing]:
        """Of devices that get no work here."""
        return self._unbound

    def hear(self, answer: HeartbeatAnswer) -> None:
        self.note(answer.unbound)
        for challenge in answer.challenges:
            # The server repeats a challenge until it is answered.
            if challenge.seed not in self._heard and challenge.uuid in self._devices:
                self._heard.add(challenge.seed)
                self._challenges.put_nowait(challenge)

    def note(self, unbound: Sequence[UnboundDevice]) -> None:
        """Announces changes since the last call."""
        now = {device.uuid: device.standing for device in unbound if device.uuid in self._devices}
        for uuid, standing in now.items():
            if self._unbound.get(uuid) is not standing:
                self._announce(DeviceUnbound(uuid, self._devices[uuid].model, standing))
        for uuid in self._unbound.keys() - now.keys():
            self._announce(DeviceRegained(uuid, self._devices[uuid].model))
        self._unbound = now

    async def run(self) -> None:
        """Computes one at a time, in a duty of its own, so that heartbeats do not wait."""
        while True:
            challenge = await self._challenges.get()
            product = await product_on(
                self._devices[challenge.uuid], challenge.seed, challenge.seconds_left
            )
            if product is None:
                log.warning("a challenge cannot be computed on this device", uuid=challenge.uuid)
                continue
            answer = ChallengeAnswer(challenge.uuid, challenge.seed, product)
            await self._link.answer_challenges(ChallengeAnswers((answer,)))
