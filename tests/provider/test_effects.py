"""What the workbench says of the devices, without anything that runs."""

from pathlib import Path
from typing import cast

from potluck.provider.attempt.receipt_book import ReceiptBook
from potluck.provider.attempt.receipts import AttemptReceipts
from potluck.provider.attempt.runner import Runner
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.dependencies.preparer import Preparer
from potluck.provider.effects import AttemptEffects
from potluck.provider.egress.egress import Egress
from potluck.provider.event import Granted, RunEnded
from potluck.provider.files.cache import FileCache
from potluck.provider.sandbox.driver import Driver
from potluck.provider.server.node_key import load_key
from potluck.provider.server.server_client import NodeServerClient
from potluck.provider.server.throttle import Throttle
from tests.provider.builders import a_grant, completed, lease_of, settings_for


def test_devices_used_since_the_last_check_are_listed(tmp_path: Path) -> None:
    settings = settings_for("http://127.0.0.1:1", tmp_path)
    runner = Runner(
        *(cast(Driver, None), cast(Preparer, None), cast(FileCache, None), cast(Egress, None)),
        outcome_seconds=1.0,
    )
    bench = AttemptEffects(
        *(tmp_path, cast(NodeServerClient, None), runner, lambda _: None, settings, Throttle()),
        AttemptReceipts(ReceiptBook(tmp_path, load_key(tmp_path)), ChangeCounter()),
    )
    grant = a_grant(device="card")
    assert bench.used() == set()
    bench.tell([Granted(grant)])
    assert [bench.used() for _ in range(2)] == [{"card"}, {"card"}], "it runs"
    bench.tell([RunEnded(grant.attempt_id, completed(lease_of(grant)), 0)])
    assert bench.busy() == set()
    assert bench.used() == {"card"}, "it ended a moment ago"
    assert bench.used() == set()
