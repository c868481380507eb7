"""Credit runs out: the task is told, keeps a checkpoint, and goes on when there is more."""

import base64
from contextlib import ExitStack
from pathlib import Path

import pytest

from potluck.model.terms import TermsChange
from potluck.provider.control.message import InEffect, Reread
from potluck.provider.owner.file import change_file, terms_file
from potluck.wire import routes
from tests.control_request import ask_once
from tests.processes import FAST_PROVIDER, Api, ProviderProcess, ServerProcess, await_true
from tests.wallets import Wallet

# A credit a second.
PRICE = 3_600_000_000
CREDIT = 1_000_000
# Counts, says so when it is asked to end, and goes on from there.
COUNTS = """
import os, pathlib, signal, sys, time
place = pathlib.Path(os.environ["POTLUCK_CHECKPOINT"]) / "step"
step = int(place.read_text()) if place.exists() else 0
print("from", step, flush=True)
def asked(*_):
    place.write_text(str(step + 1000))
    print("asked to end", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, asked)
while step < 1000:
    step += 1
    time.sleep(0.05)
"""
QUICK = {
    "POTLUCK_SETTLE_SECONDS": "1",
    "POTLUCK_SETTLE_POLL_SECONDS": "0.1",
    "POTLUCK_CHECKPOINT_SECONDS": "4",
    "POTLUCK_FEE_BASIS_POINTS": "1000",
}


def log_of(client: Api, task_id: str, attempt: int) -> str:
    pieces = client.get(f"/v1/tasks/{task_id}/logs?attempt={attempt}").get("pieces", [])
    return b"".join(base64.b64decode(piece["data"]) for piece in pieces).decode()


def grant(server: ServerProcess, account_id: str, amount: int) -> None:
    body = f'{{"amount_micro": {amount * CREDIT}}}'.encode()
    path = routes.GRANT_CREDIT.url(account_id=account_id)
    assert server.client().call("POST", path, body).status == 204


@pytest.mark.long
def test_a_task_without_credit_keeps_a_checkpoint_and_continues_with_new_credit(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(tmp_path, 0, **QUICK))
        stack.enter_context(ProviderProcess(tmp_path, server, **FAST_PROVIDER))
        change_file(terms_file(tmp_path / "provider"), TermsChange(price_micro_per_hour=PRICE))
        assert ask_once(tmp_path / "provider", Reread()) == InEffect(is_known_to_server=True)
        poor = server.client(server.sign_in(Wallet("who runs out of credit")))
        account_id = poor.get(routes.ME.path)["id"]
        grant(server, account_id, 9)
        task_id = poor.submit(COUNTS, limits={"run_seconds": 600, "checkpoint_seconds": 3600})

        await_true(lambda: poor.task(task_id)["reason"] == "credit", "it is stopped", 60)
        task = poor.task(task_id)
        assert task["state"] == "queued"
        assert log_of(poor, task_id, 1) == "from 0\nasked to end\n"
        events = poor.get(f"{routes.LIST_EVENTS.path}?task_id={task_id}")["events"]
        assert "attempt.unfunded" in {event["kind"] for event in events}
        me = poor.get(routes.ME.path)
        assert 0 <= me["available_micro"] < 9 * CREDIT and me["held_micro"] == 0
        paid = 9 * CREDIT - me["available_micro"]
        assert task["charge_micro"] == paid
        earned = server.client().get(routes.REWARDS.path)
        assert earned["earned_micro"] == paid and earned["fee_micro"] > 0

        grant(server, account_id, 60)
        await_true(lambda: poor.task(task_id)["state"] == "succeeded", "it goes on", 60)
        word, step = log_of(poor, task_id, 2).split()
        assert word == "from" and int(step) > 1000, "the checkpoint of its end was kept"
