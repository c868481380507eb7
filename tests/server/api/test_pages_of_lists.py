"""Every list of the API has pages, and no page shows what another has shown."""

from collections.abc import Callable
from typing import Any

import pytest

from potluck.consumer import Potluck
from potluck.wire import routes
from tests.processes import Api, ServerProcess
from tests.server.api.openapi_document import document, operations
from tests.wallets import Wallet

# Lists that are part of one object or of one answer, with what bounds them.
BOUNDED = {
    "me": "scopes and roles",
    "choose_roles": "scopes and roles",
    "challenge": "origins and chains of the server",
    "show_terminal": "scopes",
    "package": "one file",
    "get_task": "the newest attempts",
    "explain_task": "kinds of refusals",
    "task_counts": "states and kinds",
    "item_states": "ranges of five thousand blocks, for each state",
    "get_node": "devices of one node",
    "get_volume": "1,000 versions",
    "explain_node": "kinds of reasons",
    "device_history": "samples of an hour",
    "pool_history": "about a hundred steps",
    "device_prices": "the newest, up to a limit",
    "task_logs": "continued by offset",
    "ledger_summary": "366 days",
    "earnings": "days, nodes and devices",
    "rewards": "devices",
    "own_statement": "one line",
    "pool_statement": "accounts that earned in one epoch",
    "claim_proof": "a node for each level of a tree",
    "get_webhook": "kinds of events",
    "list_errors": "a thousand groups",
    "pool_status": "instances, and kinds of figures",
    "market": "a hundred models",
    "list_templates": "those of the package",
    "list_views": "fifty of an account",
}


def lists_of(name: str) -> list[str]:
    schemas = document()["components"]["schemas"]
    content = operations()[name]["responses"].get("200", {}).get("content", {})
    reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    fields: dict[str, Any] = schemas.get(reference.rpartition("/")[2], {}).get("properties", {})
    return [field for field, schema in fields.items() if schema.get("type") == "array"]


def is_paged(name: str) -> bool:
    parameters = {parameter.get("name") for parameter in operations()[name].get("parameters", [])}
    return {"cursor", "limit"} <= parameters


def test_every_list_is_paged_or_bounded() -> None:
    gets = {path["get"]["operationId"] for path in document()["paths"].values() if "get" in path}
    listing = {name for name in gets if lists_of(name)}
    assert len(listing) > 15
    assert {name for name in listing if not is_paged(name)} <= BOUNDED.keys()


def pages(api: Api, path: str, field: str) -> list[str]:
    ids, cursor = [], ""
    while True:
        page = api.get(f"{path}?limit=1{cursor}")
        assert len(page[field]) <= 1
        ids += [row["id"] for row in page[field]]
        if page["next_cursor"] is None:
            return ids
        cursor = f"&cursor={page['next_cursor']}"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (routes.LIST_SESSIONS.path, "sessions"),
        (routes.LIST_INVITES.path, "invites"),
        (routes.LIST_WEBHOOKS.path, "webhooks"),
        (routes.LIST_NODE_KEYS.path, "node_keys"),
    ],
)
def test_pages_together_are_the_whole_list(server: ServerProcess, path: str, field: str) -> None:
    wallet = Wallet("reads page by page")
    api = server.client(wallet.sign_in(server.url)["access_token"])
    account_id = api.get(routes.ME.path)["id"]
    roles = b'{"roles": ["admin", "consumer", "provider"]}'
    server.client().call("PUT", routes.SET_ROLES.url(account_id=account_id), roles)
    token = str(wallet.sign_in(server.url)["access_token"])
    api = server.client(token)
    for number in range(2):
        api.post(routes.MAKE_INVITE.path, {})
        api.post(routes.MAKE_WEBHOOK.path, {"url": "https://hooks.public.org/"})
        wallet.authorise(server.url, token, Wallet(f"node {number} of pages"))
    all_ids = [row["id"] for row in api.get(path)[field]]
    assert len(all_ids) >= 2 and pages(api, path, field) == all_ids
    with Potluck(server.url, token=token) as potluck:
        methods: dict[str, Callable[[], list[Any]]] = {
            "sessions": potluck.account.sessions,
            "invites": potluck.admin.invites,
            "webhooks": potluck.webhooks.list,
            "node_keys": potluck.account.node_keys,
        }
        assert [row.id for row in methods[field]()] == all_ids
