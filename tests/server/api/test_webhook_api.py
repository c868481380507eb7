"""Webhooks over HTTP and by the commands, on a real server with a real receiver."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from potluck import webhook
from potluck.wire import routes
from tests.cli.command_line import CommandLine, InProcess
from tests.processes import ServerProcess, await_true
from tests.server.api.webhook_receiver import WebhookReceiver, hooked
from tests.wallets import Wallet

WAITS = {"memory_bytes": 2**50}


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with hooked() as webhook_receiver:
        yield webhook_receiver


@pytest.fixture
def user(server: ServerProcess, tmp_path: Path) -> CommandLine:
    token = server.sign_in(Wallet(f"has hooks {tmp_path}"))
    return InProcess(tmp_path / "config", server.url, token)


def said(user: CommandLine, *arguments: str) -> Any:
    (line,) = user.run(*arguments, "--json").lines()
    assert "error" not in line, line
    return line


def test_a_webhook_from_beginning_to_end(user: CommandLine, receiver: WebhookReceiver) -> None:
    add_command = user.run("webhooks", "add", receiver.url, "--kind", "task.queued", "--name", "ci")
    secret = add_command.stdout.decode().strip()
    assert secret.startswith("whsec_") and "shown only once" in add_command.stderr
    assert secret not in user.run("webhooks", "show", "ci").stdout.decode()
    test_command = user.run("webhooks", "test", "ci")
    assert test_command.status == 0 and test_command.stdout.decode().startswith("✓ Response 200")
    headers, body = receiver.got.pop()
    event = webhook.verify(secret, headers, body)
    assert event.kind == "webhook.test" and event.data["name"] == "ci"
    task_id = _submit(user)
    await_true(lambda: receiver.got, "it is told")
    headers, body = receiver.got.pop()
    event = webhook.verify(secret, headers, body)
    assert (event.kind, event.task_id, event.task_name) == ("task.queued", task_id, "s.py")
    assert event.id == headers["webhook-id"]
    await_true(lambda: _newest(user)["state"] == "delivered", "it is written down")
    (last_try,) = _newest(user)["newest_tries"]
    assert last_try["status"] == 200 and last_try["number"] == 1 and last_try["detail"] == ""
    table = user.run("webhooks", "deliveries", "ci").stdout.decode()
    assert "task.queued" in table and "Response 200." in table
    user.run("webhooks", "redeliver", "ci", _newest(user)["id"][-6:])
    await_true(lambda: receiver.got, "it comes again")
    assert receiver.got.pop()[0]["webhook-id"] == event.id


def test_pause_resume_rotate_change_and_remove(
    user: CommandLine, receiver: WebhookReceiver
) -> None:
    created = said(user, "webhooks", "add", receiver.url, "--kind", "task.queued", "--name", "ci")
    assert said(user, "webhooks", "pause", "ci")["pause"]["reason"] == "owner"
    assert "paused by you" in user.run("webhooks").stdout.decode()
    _submit(user)
    rotated = said(user, "webhooks", "rotate", created["webhook"]["id"])
    assert "old one is also valid" in user.run("webhooks", "show", "ci").stdout.decode()
    assert receiver.got == []
    assert said(user, "webhooks", "resume", "ci")["pause"] is None
    await_true(lambda: receiver.got, "what happened meanwhile is told")
    headers, body = receiver.got.pop()
    for secret in (created["secret"], rotated["secret"]):
        assert webhook.verify(secret, headers, body).kind == "task.queued"
    changed = said(user, "webhooks", "change", "ci", "--name", "other", "--every-kind")
    assert (changed["name"], changed["kinds"]) == ("other", [])
    assert user.run("webhooks", "change", "other").status == 64
    assert user.run("webhooks", "remove", "other").status == 0
    assert said(user, "webhooks") == {"webhooks": []}
    assert user.run("webhooks", "show", "other").status == 66


def test_a_receiver_that_fails_is_shown_to_fail(
    user: CommandLine, receiver: WebhookReceiver
) -> None:
    receiver.status = 500
    said(user, "webhooks", "add", receiver.url, "--name", "ci")
    second_add = user.run("webhooks", "add", receiver.url, "--name", "ci")
    assert second_add.status == 64 and "webhook named ci" in second_add.stderr
    test_command = user.run("webhooks", "test", "ci")
    assert test_command.status == 1 and test_command.stdout.decode().startswith(
        "✗ It answered 500."
    )
    assert "thank you" in test_command.stderr
    _submit(user)
    await_true(lambda: "failing for" in user.run("webhooks").stdout.decode(), "it fails")
    assert "Next try in" in user.run("webhooks", "deliveries", "ci").stdout.decode()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://127.0.0.2/", "loopback"),
        ("https://[::1]/", "loopback"),
        ("https://169.254.169.254/", "link-local"),
        ("http://1.1.1.1/", "https only"),
        ("https://user@hooks.public.org/", "user name"),
        ("nonsense", "https://"),
    ],
)
def test_unreachable_webhook_addresses_are_refused_immediately(
    user: CommandLine, url: str, sentence: str
) -> None:
    add_command = user.run("webhooks", "add", url)
    assert add_command.status == 64 and sentence in add_command.stderr


def test_bad_bodies_limits_and_objects_of_other_accounts(
    server: ServerProcess, receiver: WebhookReceiver
) -> None:
    owner = server.client(server.sign_in(Wallet("owns hooks")))
    other = server.client(server.sign_in(Wallet("owns no hooks")))
    for body in (
        {},
        {"url": receiver.url, "kinds": ["task.eaten"]},
        {"url": receiver.url, "secret": "whsec_mine"},
        {"url": receiver.url, "name": "\u202e"},
        {"url": receiver.url + "\u0000"},
        {"url": receiver.url, "task_id": "task_x"},
    ):
        response = owner.call("POST", routes.MAKE_WEBHOOK.path, json.dumps(body).encode())
        assert response.status == 400, body
    task_id = other.submit("print('waits')", requirements=WAITS)
    foreign = {"url": receiver.url, "task_id": task_id}
    foreign_response = owner.call("POST", routes.MAKE_WEBHOOK.path, json.dumps(foreign).encode())
    assert foreign_response.status == 404, "another's task is none"
    created = [owner.post(routes.MAKE_WEBHOOK.path, {"url": receiver.url}) for _ in range(11)]
    assert created[10]["code"] == "quota_exceeded"
    webhook_id = created[0]["webhook"]["id"]
    assert other.call("GET", routes.GET_WEBHOOK.url(webhook_id=webhook_id)).status == 404
    assert other.call("DELETE", routes.REMOVE_WEBHOOK.url(webhook_id=webhook_id)).status == 404
    entries = server.client().get(routes.AUDIT.path)["entries"]
    (entry,) = [entry for entry in entries if entry["subject"] == webhook_id]
    assert entry["kind"] == "webhook_made" and entry["detail"]["host"] == "127.0.0.1"
    for _ in range(5):
        owner.call("POST", routes.TEST_WEBHOOK.url(webhook_id=webhook_id))
    # One measure for all that makes the server call somebody at once.
    for url in (
        routes.TEST_WEBHOOK.url(webhook_id=webhook_id),
        routes.RESUME_WEBHOOK.url(webhook_id=webhook_id),
        routes.REDELIVER.url(webhook_id=webhook_id, delivery_id="delivery_x"),
    ):
        assert owner.call("POST", url).status == 429, url
    moved = json.dumps({"url": receiver.url}).encode()
    assert (
        owner.call("PATCH", routes.CHANGE_WEBHOOK.url(webhook_id=webhook_id), moved).status == 429
    )


def _submit(user: CommandLine) -> str:
    script = Path(user.variables["POTLUCK_CONFIG_DIR"]).parent / "s.py"
    script.write_text("print(1)")
    return user.run("run", "--detach", "--ram", "900TB", str(script)).stdout.decode().strip()


def _newest(user: CommandLine) -> Any:
    deliveries = said(user, "webhooks", "deliveries", "ci")["deliveries"]
    return deliveries[0] if deliveries else {"state": ""}
