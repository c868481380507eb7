"""The record of who did what, for admins."""

from typing import Annotated

from litestar import Controller, get, post
from litestar.params import Parameter

from potluck.server.parts import Parts
from potluck.store import audit
from potluck.wire import routes
from potluck.wire.identity import AuditPage, AuditVerdict

_LAST = 2**62
Limit = Annotated[int, Parameter(ge=1, le=1000)]
Number = Annotated[int, Parameter(ge=1, le=_LAST)]


class AuditController(Controller):
    tags = ("accounts",)

    @get(routes.AUDIT.template, operation_id="audit")
    async def audit(self, parts: Parts, before: Number = _LAST, limit: Limit = 100) -> AuditPage:
        """What happened, the newest first."""
        async with parts.database.transaction() as connection:
            entries = await audit.newest(connection, before, limit)
        goes_on = bool(entries) and entries[-1].number > 1
        return AuditPage(entries, entries[-1].number if goes_on else None)

    @post(routes.VERIFY_AUDIT.template, operation_id="verify_audit", status_code=200)
    async def verify(self, parts: Parts) -> AuditVerdict:
        """Follows the chain of hashes from its start, and says where it breaks if it does."""
        async with parts.database.transaction() as connection:
            return await audit.verify(connection, parts.keys.audit)
