"""Every operation of the API, by area. Start here.

An area is a module with the handlers of its operations. Each handler is declared by
`@AREA.operation(route, scopes, title, ...)`, the one place for its policy, title and examples.
`docs/permissions.md` lists them on one page; `make docs` writes it.
"""

from typing import Final

from potluck.server.api import (
    account,
    administer,
    alerts,
    browser_session,
    contract,
    many_tasks,
    notify,
    operate,
    own_machines,
    pages,
    prices,
    provide,
    queue,
    receipts,
    resources,
    results,
    rewards,
    settle,
    sign_in,
    submit,
    volumes,
)
from potluck.server.api.area import Area, Operation

AREAS: Final[tuple[Area, ...]] = (
    sign_in.AREA,
    browser_session.AREA,
    account.AREA,
    resources.AREA,
    submit.AREA,
    queue.AREA,
    many_tasks.AREA,
    provide.AREA,
    results.AREA,
    volumes.AREA,
    settle.AREA,
    rewards.AREA,
    receipts.AREA,
    prices.AREA,
    contract.AREA,
    own_machines.AREA,
    notify.AREA,
    administer.AREA,
    alerts.AREA,
    operate.AREA,
    pages.AREA,
)
OPERATIONS: Final[dict[str, Operation]] = {
    operation.name: operation for area in AREAS for operation in area.operations
}
assert len(OPERATIONS) == sum(len(area.operations) for area in AREAS), (
    "two operations have the same name"
)
