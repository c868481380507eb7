"""Runs a command that changes one account or one node: finds it, acts, and says what it did."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from potluck.cli.options import connect
from potluck.cli.terminal.screen import Screen
from potluck.model.error import InvalidInput, NotFound
from potluck.wire.identity import AccountView

if TYPE_CHECKING:
    from potluck.consumer import Potluck
    from potluck.consumer.admin import Admin


class ChangeTarget(NamedTuple):
    """A kind of thing that admins change: the name of its id in JSON, and how it is found."""

    key: str
    find: "Callable[[Potluck, str], str]"


def change(
    target: ChangeTarget,
    name: str,
    act: "Callable[[Admin, str], None]",
    changed: dict[str, Any],
    sentence: str,
    server: str | None,
    json: bool,
) -> None:
    """`act` gets the id; `changed` and `sentence` tell programs and people what has changed."""
    screen = Screen(json)
    with connect(server) as potluck:
        target_id = target.find(potluck, name)
        act(potluck.admin, target_id)
    if json:
        screen.emit({target.key: target_id, **changed})
    else:
        screen.out.line(sentence)


def find_account(potluck: "Potluck", name: str) -> str:
    """The id of an account, given its id, its wallet or its label."""
    return name if name.startswith("account_") else find_account_view(potluck, name).id


def find_account_view(potluck: "Potluck", name: str) -> AccountView:
    lowered = name.strip().lower()
    for account in potluck.admin.accounts():
        if lowered and lowered in (account.id, account.address.lower(), account.label.lower()):
            return account
    raise NotFound(f"There is no account {name!r} here.", "`potluck admin accounts` lists them.")


def find_node(potluck: "Potluck", name: str) -> str:
    """The id of a node, given its id or its name."""
    if name.startswith("node_"):
        return name
    ids = [node.id for node in potluck.resources.nodes() if node.name == name]
    if not ids:
        raise NotFound(f"There is no node {name!r} here.", "`potluck nodes` lists them.")
    if len(ids) > 1:
        raise InvalidInput(
            f"{len(ids)} nodes are named {name!r}.", f"Name one of {', '.join(ids)}."
        )
    return ids[0]


ACCOUNT = ChangeTarget("account_id", find_account)
NODE = ChangeTarget("node_id", find_node)
