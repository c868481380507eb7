"""The database's lists of states are the enums': a real, migrated PostgreSQL is asked."""

import re
from enum import StrEnum

import asyncpg
import pytest

from potluck.model.alert import AlertState
from potluck.model.credit import EntryKind, Purse
from potluck.model.device import DeviceKind, Standing
from potluck.model.lease import AttemptState
from potluck.model.node import NodeState
from potluck.model.task import TaskState
from potluck.model.webhook import DeliveryState, PauseReason

LISTS: dict[str, type[StrEnum]] = {
    "alerts_state_check": AlertState,
    "attempts_state_check": AttemptState,
    "deliveries_state_check": DeliveryState,
    "devices_kind_check": DeviceKind,
    "devices_standing_check": Standing,
    "ledger_entries_kind_check": EntryKind,
    "ledger_entries_purse_check": Purse,
    "nodes_state_check": NodeState,
    "tasks_state_check": TaskState,
    "webhooks_paused_for_check": PauseReason,
}
_DEFINITION = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1"


@pytest.mark.parametrize("constraint", LISTS)
async def test_a_check_lists_the_members_of_its_enum(constraint: str, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        definition = await connection.fetchval(_DEFINITION, constraint)
    finally:
        await connection.close()
    allowed = re.findall(r"'([^']+)'::text", definition or "")
    members = [member.value for member in LISTS[constraint]]
    assert sorted(allowed) == sorted(members), "add a migration that changes the list"
