"""Values in the words of the domain, for the provider's tests."""

from pathlib import Path
from typing import cast

from potluck.model.ids import AccountId, AttemptId, DeviceId, TaskId
from potluck.model.lease import Lease
from potluck.model.task import EndReason, ItemRange, Limits, Requirements
from potluck.model.task_spec import ScriptSpec
from potluck.provider.files.blob_transfer import AttemptTransfers, BlobTransfer
from potluck.provider.files.outbox import Outbox
from potluck.provider.server.node_key import NodeKey
from potluck.provider.server.server_client import NodeServerClient
from potluck.provider.server.throttle import Throttle
from potluck.provider.settings import ProviderSettings
from potluck.store.new_ids import new_attempt_id, new_task_id
from potluck.wire.provider import Finished, Grant, GrantedDevice

KEY = NodeKey(b"a node key for the tests, really")
ACCOUNT = AccountId("account_01j00000000000000000000000")
WALLET = "0x" + "11" * 20


def a_grant(
    source: str = "print('hello')",
    *,
    attempt_id: AttemptId | None = None,
    account_id: AccountId = ACCOUNT,
    device: str = "cpu-1",
    milli: int = 1000,
    limits: Limits | None = None,
    arguments: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    items: range | None = None,
) -> Grant:
    attempt_id = attempt_id or new_attempt_id()
    return Grant(
        attempt_id=attempt_id,
        token=f"token-of-{attempt_id}",
        task_id=new_task_id(),
        account_id=account_id,
        wallet=WALLET,
        spec=ScriptSpec("script.py", source, arguments, environment or {}),
        requirements=Requirements(memory_bytes=256 * 2**20, disk_bytes=16 * 2**20),
        limits=limits or Limits(run_seconds=30, prepare_seconds=30),
        devices=[GrantedDevice(DeviceId("device_01j00000000000000000000000"), device, milli)],
        items=[] if items is None else [ItemRange(items.start, items.stop)],
        items_total=None if items is None else 1000,
    )


def lease_of(grant: Grant) -> Lease:
    return Lease(grant.attempt_id, grant.token)


def a_lease() -> tuple[Lease, TaskId]:
    attempt_id = new_attempt_id()
    return Lease(attempt_id, f"token-of-{attempt_id}"), new_task_id()


def completed(lease: Lease) -> Finished:
    return Finished(lease, EndReason.COMPLETED, 0)


def idle_freight(directory: Path) -> AttemptTransfers:
    """For attempts that are brought nothing and whose files nobody fetches."""
    lease, _ = a_lease()
    courier = BlobTransfer(cast(NodeServerClient, None), lease, Throttle())
    return AttemptTransfers(Outbox.open(directory, lease.attempt_id), courier)


def settings_for(url: str, data_directory: Path) -> ProviderSettings:
    """All times in tenths of seconds."""
    return ProviderSettings(
        url=url,
        data_directory=data_directory,
        name="test-node",
        index_url=f"{url}/simple",  # where no package is to be found
        heartbeat_seconds=0.1,
        poll_seconds=0.5,
        answer_seconds=2.0,
        beat_answer_seconds=1.0,
        back_off_first_seconds=0.01,
        back_off_longest_seconds=0.1,
        log_flush_seconds=0.02,
        outcome_flush_seconds=0.1,
        stop_grace_seconds=2.0,
        detect_seconds=0.05,  # the processor is device enough
        terms_seconds=0.1,
        sample_seconds=0.3,
    )
