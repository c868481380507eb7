"""Models of queries/wishes.sql."""

from datetime import UTC, datetime, timedelta

from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("wishes")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@models(_sql.add)
def add(data: Data, node_id: str, wish: bytes) -> list[Row]:
    node = data.nodes.get(node_id)
    if node is None:
        return []
    milliseconds = (data.now - _EPOCH) // timedelta(milliseconds=1)
    number = max(node["last_wish"] + 1, milliseconds)
    data.nodes.update(node, {"last_wish": number})
    data.wishes.insert({"node_id": node_id, "number": number, "wish": wish})
    return [{"number": number}]


@models(_sql.carry_out)
def carry_out(data: Data, node_id: str, number: int) -> list[Row]:
    for row in data.wishes.of("node", node_id):
        if row["number"] <= number:
            data.wishes.delete(row)
    return []


@models(_sql.pending)
def pending(data: Data, node_ids: list[str]) -> list[Row]:
    found = [row for each in sorted(set(node_ids)) for row in data.wishes.of("node", each)]
    found.sort(key=lambda row: (row["node_id"], row["number"]))
    return [{name: row[name] for name in ("node_id", "number", "wish")} for row in found]
