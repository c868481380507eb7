"""A machine with eight mixed cards, one of which falls off the bus while a task runs on it."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from tests.processes import FAST_PROVIDER, Api, ProviderProcess, ServerProcess, await_true
from tests.stubs.mixed_gpus import H100, OFFERED, WHOLE, mixed_rig
from tests.stubs.nvml import GIB, NvmlRig

CARDS = {
    **FAST_PROVIDER,
    "POTLUCK_PROVIDER_DETECT_SECONDS": "20",
    "POTLUCK_PROVIDER_SAMPLE_SECONDS": "0.2",
    "OCL_ICD_VENDORS": "/nonexistent",  # whatever else this machine has is not asked
    # The stub has no device nodes, and behind walls no task begins without those of its card.
    "POTLUCK_PROVIDER_UNSAFE_NO_SANDBOX": "true",
}
# On the card of the second machine it comes to its end.
TASK = """
import os, time
print("on", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
if os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-h100":
    time.sleep(60)
"""
WANTS_H100 = {"device_kind": "gpu", "device_model": "*H100*"}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def events(database_url: str, node_id: str) -> list[tuple[str, dict[str, Any]]]:
    """What the node's owner is told about its devices."""

    async def read() -> list[Any]:
        connection = await asyncpg.connect(database_url)
        try:
            query = "SELECT kind, data FROM events WHERE node_id = $1 AND kind LIKE 'device.%'"
            return list(await connection.fetch(f"{query} ORDER BY id", node_id))
        finally:
            await connection.close()

    return [(row["kind"], json.loads(row["data"])) for row in asyncio.run(read())]


def device(client: Api, node_id: str, uuid: str) -> Any:
    devices = client.get(f"/v1/nodes/{node_id}")["devices"]
    return next(view for view in devices if view["description"]["uuid"] == uuid)


def is_told(client: Api, node_id: str) -> bool:
    """Whether the server has heard how its devices do."""
    devices = client.get(f"/v1/nodes/{node_id}")["devices"]
    samples = [view.get("sample") or {} for view in devices]
    return all(sample.get("temperature_celsius") is not None for sample in samples)


def test_a_lost_card_is_reported_and_its_task_moves(
    tmp_path: Path, stack: ExitStack, database_url: str
) -> None:
    server = stack.enter_context(ServerProcess(tmp_path, POTLUCK_DATABASE_URL=database_url))
    client = server.client()
    rig = mixed_rig(tmp_path / "many")
    many_cards = stack.enter_context(
        ProviderProcess(tmp_path / "many", server, **CARDS, **rig.environment)
    )
    await_true(lambda: is_told(client, many_cards.node_id), "its devices are told of")
    _check_registered(client.get(f"/v1/nodes/{many_cards.node_id}")["devices"])

    task_id = client.submit(TASK, requirements=WANTS_H100)
    await_true(lambda: "on GPU-h100" in client.log(task_id), "it runs on the only H100")
    assert device(client, many_cards.node_id, "GPU-h100")["free_milli"] == 0
    other = NvmlRig(tmp_path / "one")
    other.add(replace(H100, uuid="GPU-other"))
    one_card = stack.enter_context(
        ProviderProcess(tmp_path / "one", server, **CARDS, **other.environment)
    )
    rig.fall_off("GPU-h100")

    finished = client.finished(task_id)
    assert finished["state"] == "succeeded"
    assert [(attempt["node_id"], attempt["reason"]) for attempt in finished["attempts"]] == [
        (many_cards.node_id, "device_lost"),
        (one_card.node_id, "completed"),
    ]
    assert "on GPU-other" in client.log(task_id)
    sick_device = device(client, many_cards.node_id, "GPU-h100")
    assert (sick_device["availability"], sick_device["sample"]["health"]) == ("sick", "lost")
    assert "H100" in sick_device["why"]
    [(kind, data)] = events(database_url, many_cards.node_id)
    assert (kind, data["health"], data["device_id"]) == ("device.sick", "lost", sick_device["id"])

    one_card.stop()
    waiting = client.submit(TASK.replace("60", "0"), requirements=WANTS_H100)
    _check_waits(client, waiting)
    others = client.submit("print('fine')", requirements={"device_model": "*T4*"})
    assert client.finished(others)["state"] == "succeeded", "its neighbours have work as before"
    assert client.task(waiting)["state"] == "queued", "a sick device gets none"
    rig.come_back("GPU-h100")
    assert client.finished(waiting)["state"] == "succeeded", "and well again, it does"
    assert [kind for kind, _ in events(database_url, many_cards.node_id)] == [
        "device.sick",
        "device.well",
    ]


def _check_registered(devices: list[Any]) -> None:
    devices_by_uuid = {entry["description"]["uuid"]: entry for entry in devices}
    assert sorted(devices_by_uuid) == sorted(OFFERED)
    for card in WHOLE:
        description, sample = (
            devices_by_uuid[card.uuid]["description"],
            devices_by_uuid[card.uuid]["sample"],
        )
        assert (description["model"], description["memory_bytes"]) == (card.name, card.memory)
        assert (description["vendor"], description["interface"]) == ("NVIDIA", "cuda")
        assert description["driver"] == "550.54.14"
        assert description["compute_capability"] == card.capability
        assert description["pcie"] == f"{card.pcie_generation}.0 x{card.pcie_width}"
        assert description["power_watts"] == card.power_limit // 1_000
        assert (sample["temperature_celsius"], sample["utilisation_percent"]) == (
            card.temperature,
            card.utilisation,
        )
        assert (sample["memory_used_bytes"], sample["power_watts"]) == (card.memory_used, 25)
        assert (sample["health"], sample["memory_errors"]) == ("well", card.ecc)
    part = devices_by_uuid["MIG-a100-1"]["description"]
    assert (part["is_partition"], part["parent_uuid"]) == (True, "GPU-a100")
    assert part["memory_bytes"] == 20 * GIB
    assert devices_by_uuid["GPU-4090-1"]["sample"]["others"] == 2, "two processes that are not ours"


def _check_waits(client: Api, task_id: str) -> None:
    def reasons() -> Any:
        return json.dumps(client.get(f"/v1/tasks/{task_id}/explain"))

    await_true(lambda: "device_away" in reasons(), "it waits for a device that is away")
