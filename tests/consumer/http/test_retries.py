"""Which calls of the client are repeated when the server is away, and which never are.

A call that is repeated may reach the server twice: so only those are that change nothing, or carry
a key by which the server knows them again. Every public call stands in the table.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from potluck.consumer import Potluck
from potluck.consumer.client import AREAS
from potluck.model import error
from potluck.model.account import Quota, Role, Scope
from potluck.model.blob import BlobRef
from potluck.model.credit import RewardsTo
from potluck.model.terms import Order, TermsChange
from potluck.wire.alerts import NewSilence
from potluck.wire.identity import Delegation, NewInvite
from tests.consumer.fake_server import FakeServer, Scene, hang_up, refuses
from tests.consumer.test_client import HASTE, REQUEST

BLOB = BlobRef("0" * 64, 3)
DELEGATION = Delegation("0x", "0x", "here", ("node",), 0, 1, "12345678", "0x")
FOLDER = Path(__file__).parent / "no such folder"

# What is called, and with what.
Call = tuple[str, tuple[Any, ...]]
REPEATED: list[Call] = [
    # They read.
    ("health", ()),
    ("package", ()),
    ("tasks.get", ("t",)),
    ("tasks.list", ()),
    ("tasks.explain", ("t",)),
    ("tasks.estimate", (REQUEST,)),
    ("tasks.logs", ("t",)),
    ("tasks.attempts", ("t",)),
    ("tasks.failed_items", ("t",)),
    ("tasks.follow", ("t",)),
    ("tasks.wait", ("t",)),
    ("results.get", ("t",)),
    ("results.raw", ("t",)),
    ("resources.nodes", ()),
    ("resources.node", ("n",)),
    ("resources.devices", ()),
    ("resources.pool", ()),
    ("resources.market", ()),
    ("ledger.balance", ()),
    ("ledger.entries", ()),
    ("ledger.page", ()),
    ("ledger.summary", ()),
    ("events.list", ()),
    ("events.all", ()),
    ("events.follow", ()),
    ("webhooks.list", ()),
    ("webhooks.get", ("w",)),
    ("webhooks.deliveries", ("w",)),
    ("account.me", ()),
    ("account.sessions", ()),
    ("account.keys", ()),
    ("account.node_keys", ()),
    ("own_nodes.explain", ("n",)),
    ("own_nodes.history", ("d",)),
    ("own_nodes.earnings", ()),
    ("own_nodes.price_history", ("d",)),
    ("own_nodes.suggest_price", ("d",)),
    ("rewards.get", ()),
    ("rewards.epochs", ()),
    ("rewards.statement", (1,)),
    ("rewards.payouts", ()),
    ("rewards.contract", ()),
    ("rewards.claim_proof", ()),
    ("rewards.signer", ()),
    ("receipts.attempts", ()),
    ("receipts.page", ()),
    ("receipts.signed", ()),
    ("receipts.export", ()),
    ("admin.epochs", ()),
    ("admin.statement", (1,)),
    ("admin.claimants", ()),
    ("admin.payouts", ()),
    ("admin.accounts", ()),
    ("admin.invites", ()),
    ("admin.audit", ()),
    ("admin.tasks", ()),
    ("admin.alerts", ()),
    ("admin.errors", ()),
    ("admin.status", ()),
    ("admin.history", ()),
    ("admin.events", ()),
    ("volumes.list", ()),
    ("files.of_task", ("t",)),
    ("files.fetch", ("t", FOLDER)),
    ("files.download_bytes", (BLOB,)),
    # They carry a key: the second one is answered as the first.
    ("tasks.submit", (REQUEST,)),
    ("tasks.cancel", ("t",)),
    ("tasks.retry", ("t",)),
    ("account.make_key", ("ci", [Scope.TASKS_READ], 60)),
    ("admin.grant", ("a", 5)),
    ("admin.revoke", ("a", 5, "a mistake")),
    ("admin.take", ("a", 5, "a mistake")),
    ("admin.invite", (NewInvite(),)),
    ("webhooks.add", ("https://example.org/",)),
    ("webhooks.rotate", ("w",)),
    # Done twice they are done once: the bytes have a name, a switch has two sides.
    ("files.upload_bytes", (b"abc",)),
    ("webhooks.pause", ("w",)),
]
ONCE: list[Call] = [
    # Each makes something, changes something for others, or ends what a second try would miss.
    ("webhooks.change", ("w",)),
    ("webhooks.remove", ("w",)),
    ("webhooks.resume", ("w",)),
    ("webhooks.test", ("w",)),
    ("webhooks.redeliver", ("w", "d")),
    ("account.challenge", ()),
    ("account.choose_roles", ([Role.CONSUMER],)),
    ("account.end_session", ("s",)),
    ("account.log_out", ()),
    ("account.revoke_key", ("k",)),
    ("account.revoke_keys", ()),
    ("account.authorise_node_key", (DELEGATION, "attic")),
    ("account.revoke_node_key", ("k",)),
    ("own_nodes.change", ("n", TermsChange())),
    ("own_nodes.order", ("n", Order.DRAIN)),
    ("rewards.choose", (RewardsTo.PAYOUT,)),
    ("admin.mark_paid", ([],)),
    ("admin.resume_payouts", ()),
    ("admin.set_roles", ("a", [Role.CONSUMER])),
    ("admin.set_label", ("a", "ann")),
    ("admin.cordon", ("n",)),
    ("admin.uncordon", ("n",)),
    ("admin.remove_node", ("n",)),
    ("admin.suspend", ("a",)),
    ("admin.resume", ("a",)),
    ("admin.set_quota", ("a", Quota())),
    ("admin.revoke_invite", ("i",)),
    ("admin.verify_audit", ()),
    ("admin.rotate_key", ()),
    ("admin.test_alerts", ()),
    ("admin.silence_alerts", (NewSilence(),)),
    ("admin.end_silence", ("s",)),
]
# Made of others, which stand above; or they end, and open, nothing but this client.
OF_OTHERS = {
    # They find the volume by `volumes.list` first.
    *("volumes.get", "volumes.files", "volumes.fetch", "volumes.put", "volumes.add"),
    *("volumes.share", "volumes.unshare", "volumes.keep", "volumes.remove"),
    *("files.upload", "files.upload_folder", "files.upload_packed"),
    *("files.download", "files.bring"),
    *("close", "at_close", "begin_anew", "as_saved", "through"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as fake:
        yield fake


@pytest.fixture(scope="module")
def client(server: FakeServer) -> Iterator[Potluck]:
    with Potluck(server.url, "secret", HASTE) as client:
        yield client


def public(client: Potluck) -> set[str]:
    """Every method of the client and of its areas."""
    areas = {name: getattr(client, name) for name in AREAS}
    own_methods = {name for name, _ in _methods(Potluck)}
    return own_methods | {
        f"{area}.{name}" for area in areas for name, _ in _methods(type(areas[area]))
    }


def _methods(kind: type) -> list[tuple[str, Any]]:
    members = [
        *inspect.getmembers(kind, inspect.isfunction),
        *inspect.getmembers(kind, inspect.ismethod),
    ]
    return [(name, method) for name, method in members if not name.startswith("_")]


def called(client: Potluck, name: str, arguments: tuple[Any, ...]) -> None:
    """To its end, as far as there is one; whoever is iterated is asked for the first."""
    part, _, method = name.rpartition(".")
    value: Any = getattr(getattr(client, part) if part else client, method)(*arguments)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | list):
        next(iter(value))


AWAY: dict[str, Callable[[], Scene]] = {
    "connection lost": hang_up,
    "503": lambda: refuses(error.Unavailable("Not now.")),
    "429": lambda: refuses(error.RateLimited("Too much.")),
}


@pytest.mark.parametrize("outage", AWAY)
@pytest.mark.parametrize(("name", "arguments"), REPEATED, ids=[case[0] for case in REPEATED])
def test_idempotent_calls_are_repeated(
    server: FakeServer, client: Potluck, name: str, arguments: tuple[Any, ...], outage: str
) -> None:
    server.answers_all(AWAY[outage]())
    with pytest.raises(error.PotluckError) as error_info:
        called(client, name, arguments)
    assert error_info.value.retryable, "whoever calls may try again, later"
    assert len(server.requests) > 1
    assert len({(request.method, request.path, request.body) for request in server.requests}) == 1
    keys = {request.headers.get("Idempotency-Key") for request in server.requests}
    assert len(keys) == 1, "the same call has the same key each time"


@pytest.mark.parametrize("outage", AWAY)
@pytest.mark.parametrize(("name", "arguments"), ONCE, ids=[case[0] for case in ONCE])
def test_other_calls_are_never_repeated(
    server: FakeServer, client: Potluck, name: str, arguments: tuple[Any, ...], outage: str
) -> None:
    server.answers_all(AWAY[outage]())
    with pytest.raises(error.PotluckError):
        called(client, name, arguments)
    assert len(server.requests) == 1


def test_every_call_is_in_the_table(client: Potluck) -> None:
    listed_names = {name for name, _ in REPEATED + ONCE} | OF_OTHERS
    assert public(client) == listed_names, (
        f"say whether it may be repeated: {public(client) ^ listed_names}"
    )


def test_all_calls_are_repeated_while_the_connection_is_refused() -> None:
    """So everything may try that again; then nobody answers, and that is said."""
    with Potluck("http://127.0.0.1:9", "secret", HASTE) as client:
        for name, arguments in (REPEATED[1], ONCE[0]):
            with pytest.raises(error.ServerUnreachable, match="Nothing answers"):
                called(client, name, arguments)


def test_a_refusal_is_not_repeated(server: FakeServer, client: Potluck) -> None:
    server.answers_all(refuses(error.InvalidInput("That is impossible.")))
    for name, arguments in [*REPEATED[1:9], *ONCE[:3]]:
        server.requests.clear()
        with pytest.raises(error.InvalidInput):
            called(client, name, arguments)
        # The server's version may explain it, and is asked for once.
        sent = [request for request in server.requests if request.path != "/healthz"]
        assert len(sent) == 1, name


def test_every_public_name_has_a_docstring(client: Potluck) -> None:
    areas = {name: getattr(client, name) for name in AREAS}
    silent = [
        f"{name}.{method}"
        for name, area in {**areas, "client": client}.items()
        for method, method_function in _methods(type(area))
        if not (method_function.__doc__ or "").strip()
    ]
    assert silent == []
