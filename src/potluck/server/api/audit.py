"""The record of who did what, for admins."""

from typing import Annotated

from litestar import Controller, get, post
from litestar.params import QueryParameter

from potluck.server.services import Parts
from potluck.store.identity import audit
from potluck.wire import routes
from potluck.wire.identity import AuditPage, AuditVerdict

_LAST = 2**62
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=1000)]
Before = Annotated[int, QueryParameter(name="cursor", ge=1, le=_LAST)]


class AuditController(Controller):
    @get(routes.AUDIT.template, operation_id="audit")
    async def audit(self, parts: Parts, cursor: Before = _LAST, limit: Limit = 100) -> AuditPage:
        """What happened, the newest first."""
        async with parts.database.transaction() as connection:
            entries = await audit.newest(connection, cursor, limit)
        goes_on = bool(entries) and entries[-1].number > 1
        return AuditPage(entries, entries[-1].number if goes_on else None)

    @post(routes.VERIFY_AUDIT.template, operation_id="verify_audit", status_code=200)
    async def verify(self, parts: Parts) -> AuditVerdict:
        """Follows the chain of hashes from its start, and says where it breaks if it does."""
        async with parts.database.transaction() as connection:
            return await audit.verify(connection, parts.keys.audit)
