"""The two sides of the proof, PostgreSQL and the model, and what is compared of them."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, cast

import asyncpg
import msgspec
from msgspec import Struct

from potluck.blobs.interface import Blobs
from potluck.model.error import PotluckError
from potluck.server.contract_wallet import ContractWallets
from potluck.server.derived_keys import derive
from potluck.server.egress.types import Sender
from potluck.server.rate_limiter import Limiter
from potluck.server.services import Parts
from potluck.server.settings import ServerSettings
from potluck.simulate.faults.live import LossyLive
from potluck.simulate.store.data import NEVER, Data
from potluck.simulate.store.database import ModelDatabase
from potluck.simulate.vault import OpenVault
from potluck.store.database import Database
from potluck.store.new_ids import drawing_from
from tests.simulate.clocked import TABLES, ClockedDatabase

SETTINGS = ServerSettings(
    data_directory=Path("nowhere"),
    lease_seconds=10.0,
    fetch_seconds=5.0,
    overrun_seconds=5.0,
    silent_after_seconds=8.0,
    heartbeat_seconds=2.0,
    # Jitter would be drawn in another order by two that run at once.
    back_off_first_seconds=0.0,
    back_off_longest_seconds=0.0,
)
Act = Callable[["Side"], Awaitable[object]]
# Drawn by each side for itself, in its own order.
_OWN = {"changed", "id"}
_NUMBERED = ("ledger_entries", "events")


class Side:
    """Where verbs are tried: the parts of a server, on one of the two databases."""

    def __init__(self, database: Database) -> None:
        live = LossyLive(lambda: False)
        self.database = database
        self.raised: Exception | None = None  # the last one
        self.memory: dict[str, Any] = {}  # what this side was told, to be said again later
        self.parts = Parts(
            SETTINGS,
            database,
            live,
            cast(Blobs, None),
            keys=derive(b"secret" * 6),
            vault=OpenVault(),
            origins=("http://127.0.0.1",),
            limiter=Limiter(live, SETTINGS),
            contract_wallets=ContractWallets({}),
            authority_pem=None,
            outward=cast(Sender, None),
            instance="one",
            stopping=asyncio.Event(),
        )

    async def tell(self, act: Act, seed: int) -> object:
        """What it answers, or which error it raises."""
        draw = random.Random(seed)
        with drawing_from(lambda: (1_900_000_000_000 + seed % 10**9, draw.randbytes(10))):
            try:
                return plain(await act(self))
            except PotluckError as error:
                return f"refused: {error.code}"
            except Exception as error:  # noqa: BLE001  the other side must raise the same
                self.raised = error
                return f"raised: {type(error).__name__}"


class ModelSide(Side):
    """Can go back: what was written since a mark is undone."""

    def __init__(self) -> None:
        self.data = Data()
        self._written: list[Any] = []
        super().__init__(ModelDatabase(self.data, done=self._remember))

    def mark(self) -> None:
        self._written = []

    def go_back(self) -> None:
        while self._written:
            table, key, before = self._written.pop()
            table.restore(key, before)

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        return {table: list(self.data.log.tables[table].all()) for table in TABLES}

    def _remember(self) -> None:
        self._written += self.data.log.written


class PostgresSide(Side):
    def __init__(self, database: ClockedDatabase) -> None:
        self.clocked = database
        super().__init__(database)


def plain(value: Any) -> Any:
    """Comparable: without order where the statement promises none."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Struct):
        fields = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        return {"": type(value).__name__, **fields}
    if isinstance(value, asyncpg.Range):
        return (value.lower, value.upper)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return sorted(map(plain, value), key=repr)
    return "-infinity" if _is_never(value) else value


def _is_never(value: Any) -> bool:
    """The driver's word for it has no time zone."""
    return isinstance(value, datetime) and value.replace(tzinfo=UTC) == NEVER


def told(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables, comparable."""
    return {table: sorted(_lines(table, found), key=repr) for table, found in rows.items()}


def _lines(table: str, rows: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    dropped = _OWN if table in _NUMBERED else _OWN - {"id"}
    dropped = {"place", "told"} if table == "event_head" else dropped
    for row in rows:
        yield {
            column: _cell(column, value)
            for column, value in sorted(row.items())
            if column not in dropped
        }


_JSON = {"requirements", "limits", "description", "usage", "data", "detail", "wish"}
_SPANS = {"pending", "remaining"}


def _cell(column: str, value: Any) -> Any:
    if column in _JSON and isinstance(value, bytes):
        return json.dumps(msgspec.json.decode(value), sort_keys=True)
    if column == "place":  # the next free number, which is another where two draw at once
        return value is not None
    if column in _SPANS:
        return [each if isinstance(each, tuple) else (each.lower, each.upper) for each in value]
    if isinstance(value, asyncpg.Range):
        return (value.lower, value.upper)
    return "-infinity" if _is_never(value) else value
