"""docs/permissions.md: the policy on one page, from the operations that the server declares.

A commit that changes who may call an operation changes this page too, where a reviewer sees it.
"""

from typing import Final

from potluck.model.account import ROLE_FOR, SCOPES, Scope
from potluck.server.api.area import Area
from potluck.server.api.operations import AREAS

OPENING: Final = """\
# Permissions

Made from the operations that `src/potluck/server/api/` declares; `make docs` writes this page.

An operation without a declaration keeps the server from starting. One of the scopes that are named
for an operation is enough. An object of another account is `not_found`, whatever the scope.

## Scopes

| scope | role | credentials that can have it |
|---|---|---|
"""


def permissions_page() -> str:
    scopes = "".join(
        f"| `{scope}` | {ROLE_FOR.get(scope, 'any')} | {_credentials(scope)} |\n" for scope in Scope
    )
    return "\n".join([OPENING + scopes, *(_section(area) for area in AREAS)])


def _credentials(scope: Scope) -> str:
    return ", ".join(credential for credential, scopes in SCOPES.items() if scope in scopes)


def _section(area: Area) -> str:
    rows = "".join(
        f"| `{operation.name}` | `{operation.route.method} {operation.route.path}` "
        f"| {' or '.join(f'`{scope}`' for scope in operation.scopes) or 'everyone'} |\n"
        for operation in area.operations
    )
    return f"## {area.name.capitalize()}\n\n| operation | route | who |\n|---|---|---|\n{rows}"
