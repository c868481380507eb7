"""What a person has saved in the dashboard: one small value for each account."""

from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire import codec
from potluck.wire.dashboard.saved_views import SavedViews

_sql = load("saved_views")


async def read(connection: Connection, account_id: AccountId) -> SavedViews:
    stored = await connection.fetchval(*_sql.read(account_id=account_id))
    return SavedViews() if stored is None else codec.decode_stored(stored, SavedViews)


async def write(connection: Connection, account_id: AccountId, views: SavedViews) -> None:
    """Replaces all of them."""
    await connection.execute(*_sql.write(account_id=account_id, views=views))
