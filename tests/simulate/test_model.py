"""The model of the store is PostgreSQL, as far as anybody can tell by verbs."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from potluck.simulate.store.data import BEGINNING, Data
from potluck.simulate.store.database import ModelDatabase
from potluck.simulate.store.statements import NotModelled
from potluck.store.identity import nonces
from tests.simulate.clocked import TABLES
from tests.simulate.plants import PLANTS, Plant, find
from tests.simulate.prove import FEWEST, Proof, prove

# Seeds that are tried in every run; `make prove` tries others, and many more.
_FIRST = 0
_MOST = 300
_SECONDS = 5.0
# Verbs that a history of the proof must have come to.
_EXPECTED = {"assign", "fetch", "beat", "adopt", "start", "end", "finish", "accept", "submit"}


def test_histories_give_the_same_answers_and_rows(
    clocked_url: str, request: pytest.FixtureRequest
) -> None:
    """One after the other, and then several connections at once."""
    done = asyncio.run(prove(clocked_url, range(_FIRST, _FIRST + _MOST), seconds=_SECONDS))
    request.node.user_properties.append(("tally", _told(done)))
    assert set(done.verbs) >= _EXPECTED
    assert done.histories >= FEWEST and done.together >= FEWEST // 2


def _told(done: Proof) -> str:
    return f"{done.histories} histories, {done.steps} verbs, {done.together} times several at once"


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_many_histories_give_the_same_answers_and_rows(clocked_url: str) -> None:
    asyncio.run(prove(clocked_url, range(10_000, 12_000), together=6))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_fault_that_is_planted_in_the_sql_is_found(plant: Plant, clocked_url: str) -> None:
    found = find(plant, clocked_url)
    assert found is not None, f"{plant.name} went unnoticed"
    print(f"{plant.name}: {found.seconds} s, {found.histories} histories: {found.difference}")


def test_the_model_has_the_columns_of_postgresql(clocked_url: str) -> None:
    assert _columns_of_the_model() == asyncio.run(_columns(clocked_url))


def _columns_of_the_model() -> dict[str, set[str]]:
    tables = Data().log.tables
    return {
        name: {*tables[name].shape.columns, *tables[name].shape.derived} for name in sorted(TABLES)
    }


async def _columns(url: str) -> dict[str, set[str]]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_name = ANY($1)",
            list(TABLES),
        )
    finally:
        await connection.close()
    found: dict[str, set[str]] = {name: set() for name in sorted(TABLES)}
    for row in rows:
        found[row["table_name"]].add(row["column_name"])
    return found


async def test_a_statement_without_a_model_says_so() -> None:
    database = ModelDatabase(Data())
    with pytest.raises(NotModelled, match="no model of"):
        async with database.transaction() as connection:
            await nonces.use(connection, "nonce", BEGINNING)


async def test_a_transaction_that_fails_leaves_nothing() -> None:
    data = Data()
    with pytest.raises(RuntimeError):
        async with ModelDatabase(data).transaction():
            data.accounts.insert({"id": "account_1", "address": "0x1"})
            raise RuntimeError
    assert len(data.accounts) == 0


async def test_nobody_waits_inside_of_a_transaction() -> None:
    """Then others would come between, which PostgreSQL's locks do not allow either."""
    database = ModelDatabase(Data())
    async with database.transaction():
        with pytest.raises(AssertionError, match="waited inside"):
            async with database.transaction():
                pass


def test_every_file_of_statements_is_modelled_or_left_out_on_purpose() -> None:
    queries = Path(__file__).parents[2] / "src" / "potluck" / "store" / "queries"
    models = Path(__file__).parents[2] / "src" / "potluck" / "simulate" / "store"
    read = "".join(path.read_text() for path in models.glob("*.py"))
    files = {path.stem for path in queries.glob("*.sql")}
    assert {name for name in files if f'load("{name}")' not in read} == _NOT_SIMULATED


# Nothing that work depends on: people, their secrets, and what is only shown.
_NOT_SIMULATED = {
    *(
        "api_keys",
        "attempt_list",
        "blobs",
        "collect",
        "deliveries",
        "devices",
        "earnings",
        "explain",
    ),
    *("event_list", "installation", "invites", "ledger_list", "listing", "pool"),
    *("nonces", "results", "sealed", "sessions", "terminal_approvals", "uploads", "webhooks"),
    "retry",
}
