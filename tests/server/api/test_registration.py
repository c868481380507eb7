"""Registrations that nobody can mean: each gets a sentence, and nothing at all has changed."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from potluck.wire import routes
from potluck.wire.signing.device_statement import statement_digest
from potluck.wire.signing.signature import sign
from tests.database_rows import settled_rows
from tests.processes import ServerProcess
from tests.security.people import Person

# Nobody beats here, and the operator has time.
PATIENT = {
    "POTLUCK_SILENT_AFTER_SECONDS": "600",
    "POTLUCK_LEASE_SECONDS": "1200",
    "POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "0",
}
WRONG_SUM = "0x52908400098527886E0F7030069857D2E4169Ee7"

Change = Callable[[dict[str, Any], dict[str, Any]], object]


def node(**changes: Any) -> Change:
    return lambda offer, _: offer["description"].update(changes)


def device(**changes: Any) -> Change:
    return lambda _, card: card.update(changes)


def terms(**changes: Any) -> Change:
    return lambda _, card: card["terms"].update(changes)


def said(**changes: Any) -> Change:
    return lambda offer, _: offer.update(changes)


def cards(*uuids: str) -> Change:
    def change(offer: dict[str, Any], card: dict[str, Any]) -> None:
        offer["description"]["devices"] = [{**card, "uuid": uuid} for uuid in uuids]

    return change


def part_of_itself(offer: dict[str, Any], card: dict[str, Any]) -> None:
    part = {**card, "uuid": "MIG-1", "parent_uuid": card["uuid"]}
    offer["description"]["devices"] = [card, part]


# What is said, the status of the answer, and a word of its sentence.
NONSENSE: dict[str, tuple[Change, int, str]] = {
    "negative memory": (device(memory_bytes=-1), 400, "memory_bytes"),
    "memory of a galaxy": (device(memory_bytes=2**51), 400, "memory_bytes"),
    "memory past 64 bits": (device(memory_bytes=2**70), 400, "memory_bytes"),
    "half a byte": (device(memory_bytes=0.5), 400, "memory_bytes"),
    "text for memory": (device(memory_bytes="24 GB"), 400, "memory_bytes"),
    "no device": (cards(), 400, "devices"),
    "65 devices": (cards(*(f"GPU-{number}" for number in range(65))), 400, "devices"),
    "as many as a body holds": (cards(*(f"GPU-{number}" for number in range(1_000))), 400, "devic"),
    "more than that": (cards(*(f"GPU-{number}" for number in range(9_000))), 413, "body"),
    "a billion compute units": (device(compute_units=10**9), 400, "compute_units"),
    "a line break in a model": (device(model="RTX\n4090"), 400, "model"),
    "an escape in a name": (node(name="\x1b[31mattic"), 400, "name"),
    "a name from right to left": (node(name="\u202eattic"), 400, "name"),
    "NUL in a uuid": (device(uuid="GPU-\0"), 400, "uuid"),
    "no uuid": (device(uuid=""), 400, "uuid"),
    "one uuid twice": (cards("GPU-1", "GPU-1"), 400, "same uuid"),
    "one uuid in two cases": (cards("GPU-ab", "gpu-AB"), 400, "same uuid"),
    "a card and its part": (part_of_itself, 400, "is a part of"),
    "an unheard-of kind": (device(kind="tpu"), 400, "kind"),
    "an unheard-of field": (device(colour="red"), 400, "colour"),
    "a power plant": (device(power_watts=10**6), 400, "power_watts"),
    "faster than light": (
        device(measured={"float_operations_per_second": 10**19}),
        400,
        "float_operations",
    ),
    "no core": (node(cores=0), 400, "cores"),
    "a million cores": (node(cores=10**6), 400, "cores"),
    "a negative price": (terms(price_micro_per_hour=-1), 400, "price"),
    "a price past all": (terms(price_micro_per_hour=10**13), 400, "price"),
    "no share of the memory": (terms(memory_share=0), 400, "memory_share"),
    "more than the memory": (terms(memory_share=1.5), 400, "memory_share"),
    "no fraction": (terms(fractions=0), 400, "fractions"),
    "grace of a day": (terms(grace_seconds=86_400), 400, "grace"),
    "hours that are none": (terms(hours="whenever"), 400, "hours"),
    "kinds that are none": (terms(kinds=["dance"]), 400, "kinds"),
    "a wallet that is none": (terms(allow=["0x12"]), 400, "allow"),
    "a wallet with a wrong sum": (terms(deny=[WRONG_SUM]), 400, "checksum"),
    "too hot": (
        said(statuses=[{"uuid": "GPU-1", "temperature_celsius": 5_000}]),
        400,
        "temperature",
    ),
    "a wish before all": (said(wish=-1), 400, "wish"),
    "another protocol": (said(protocol=99), 426, "protocol 99"),
    "another protocol, and what it says": (said(protocol=99, mood="good"), 426, "protocol 99"),
    "a device without a statement": (said(statements=[]), 400, "no valid statement"),
}


@pytest.mark.timeout(120)
def test_nonsense_gets_a_sentence_and_changes_nothing(tmp_path: Path, database_url: str) -> None:
    with ServerProcess(tmp_path, 0, POTLUCK_DATABASE_URL=database_url, **PATIENT) as server:
        owner, other = Person(server, "owner"), Person(server, "other")
        foreign = {
            "another wallet's device": (cards(owner.uuid), 409, "another wallet"),
            "another wallet's among one's own": (cards(other.uuid, owner.uuid), 409, owner.uuid),
        }
        bodies = {name: registration(other, case[0]) for name, case in (NONSENSE | foreign).items()}
        api = server.client(other.node_token())
        before = settled_rows(database_url)
        for name, (_, status, fragment) in (NONSENSE | foreign).items():
            response = api.call("POST", routes.REGISTER_NODE.path, bodies[name])
            assert response.status == status, (name, response.data)
            problem = response.json()
            assert fragment in problem["detail"] and problem["detail"].endswith("."), (
                name,
                problem,
            )
            assert problem["hint"] or status == 413, (name, problem)
        assert settled_rows(database_url) == before
        right = api.call("POST", routes.REGISTER_NODE.path, registration(other, said()))
        assert right.status == 201, "and it is not that nothing would be taken"


def registration(person: Person, change: Change) -> bytes:
    """With a statement for each of its devices: only what is wrong about it is in its way."""
    offer = person.registration()
    (statement,) = offer.pop("statements")
    change(offer, offer["description"]["devices"][0])
    uuids = [entry["uuid"] for entry in offer["description"]["devices"]][:2]
    offer.setdefault(
        "statements", [_statement(person, uuid, statement["origin"]) for uuid in uuids]
    )
    return json.dumps(offer).encode()


def _statement(person: Person, uuid: str, origin: str) -> dict[str, Any]:
    now, key = int(time.time()), person.node_key
    signature = sign(key.key, statement_digest(uuid, key.address, origin, now))
    return {"uuid": uuid, "origin": origin, "stated_at": now, "signature": signature}
