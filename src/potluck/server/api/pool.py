"""The pool in numbers."""

from litestar import Controller, get

from potluck.server.services import Parts
from potluck.store.nodes import pool_totals
from potluck.wire import routes
from potluck.wire.consumer import PoolView


class PoolController(Controller):
    @get(routes.SHOW_POOL.template, operation_id="show_pool")
    async def show_pool(self, parts: Parts) -> PoolView:
        """How many nodes and devices there are, how many are free, and how much waits and runs."""
        async with parts.database.transaction() as connection:
            return await pool_totals.counted(connection)
