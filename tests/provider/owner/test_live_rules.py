"""The owner's file as a running provider goes by it, and what comes of it."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.cli.provider.local import LocalTarget
from potluck.cli.provider.target import Effect
from potluck.model.device import Availability, DeviceDescription, DeviceKind, Health
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.model.task import EndReason
from potluck.model.terms import Order, TermsChange
from potluck.provider.announcement import Announcement, AvailabilityChanged, TermsRead, TermsWrong
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.detect.sampler import Sampler
from potluck.provider.detect.types import FoundDevice, Sample
from potluck.provider.event import DevicesClosed, DevicesWanted, Event, GrantRefusal
from potluck.provider.expose.expose import DeviceExposer, ExposeFunctions
from potluck.provider.expose.exposed import Exposed
from potluck.provider.owner.live_rules import OwnerRules
from potluck.provider.owner.observations import Observations
from potluck.provider.owner.owner_duties import AvailabilityDuty, ProviderHooks
from potluck.provider.owner.remote_requests import RemoteRequests
from potluck.wire.owner_request import OwnerOrder, Wish
from potluck.wire.provider import GrantedDevice
from tests.provider.builders import ACCOUNT, WALLET, a_grant, settings_for

OWNER = AccountId("account_01j00000000000000000000009")
CARD = DeviceDescription(DeviceKind.GPU, "GPU-1", "NVIDIA", "L4", 2**34)
FOUND = FoundDevice(DeviceKind.GPU, "NVIDIA", "L4", 2**34, "cuda")


class RecordedSampler(Sampler):
    """Says of each device what a driver said once."""

    def __init__(self) -> None:
        super().__init__({"GPU-1": FOUND})
        self.said: Mapping[str, Sample] = {}

    async def sample(self) -> Mapping[str, Sample]:
        return self.said


class Owner:
    """One who has a card, a file and a watch over both."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "provider.toml"
        self.rules = OwnerRules(self.path, settings_for("http://127.0.0.1:1", directory))
        self.rules.know((CARD,))
        self.announced: list[Announcement] = []
        self.events: list[Event] = []
        self.busy: set[str] = set()
        self.beats, self.offer, self.sampler = ChangeCounter(), ChangeCounter(), RecordedSampler()
        self.seen = Observations((CARD,), self.sampler)
        self.bandwidths: list[int | None] = []
        hooks = ProviderHooks(
            lambda: self.busy,
            lambda: self.busy,
            self._tell,
            self.announced.append,
            self.beats,
            self.offer,
            self.bandwidths.append,
        )
        self.watch = AvailabilityDuty((CARD,), self.rules, self.seen, hooks)

    def _tell(self, events: list[Event]) -> bool:
        self.events += events
        return bool(events)

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self.watch.reread()

    async def sees(self, sample: Sample) -> None:
        self.sampler.said = {"GPU-1": sample}
        await self.seen.look(self.rules.terms, lambda: self.busy)
        self.watch.judge()

    def availability(self) -> Availability:
        (status,) = self.watch.statuses()
        return status.availability


def closed(reason: str) -> DevicesClosed:
    detail = f"The device takes no new work now. {reason}"
    return DevicesClosed({"GPU-1": GrantRefusal(EndReason.DECLINED, detail)})


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


def test_a_change_of_the_file_is_offered_and_reported_once(owner: Owner) -> None:
    owner.write("price = 2\n")
    assert owner.offer.changes == 1 and owner.announced == [TermsRead()]
    assert owner.beats.changes == 0, "a price does not hurry a heartbeat"
    owner.watch.reread()
    assert owner.offer.changes == 1, "what has not changed is not offered again"
    owner.write("price = 2\npaused = true\n")
    assert (owner.availability(), owner.beats.changes) == (Availability.PAUSED, 1)
    assert owner.events == [closed("Its owner has paused it.")]
    assert isinstance(owner.announced[-1], AvailabilityChanged)


async def test_a_card_that_a_task_could_not_use_takes_no_work_until_it_can_be_used(
    owner: Owner,
) -> None:
    """Its driver reports it as well, but a sandbox cannot have it: it would lose every task."""
    problems: list[str] = ["/dev/nvidia-uvm does not exist."]

    def look(_: Sequence[GrantedDevice]) -> Exposed:
        return Exposed(problems=tuple(problems))

    exposer = DeviceExposer(ExposeFunctions(look, lambda _: False, owner.seen.unusable))
    await exposer.show([GrantedDevice(DeviceId("device"), "GPU-1", 1000)])
    owner.watch.judge()
    (status,) = owner.watch.statuses()
    assert status.availability is Availability.SICK
    assert status.why == "Tasks cannot use it: /dev/nvidia-uvm does not exist."
    await owner.sees(Sample())
    assert owner.availability() is Availability.SICK
    problems.clear()
    await owner.sees(Sample())
    assert owner.availability() is Availability.AVAILABLE


def test_a_wrong_file_leaves_what_held_in_force(owner: Owner) -> None:
    owner.write("price = 2\n")
    owner.write("price = 3\nprise = 4\n")
    assert owner.rules.terms["GPU-1"].price_micro_per_hour == 2_000_000
    assert isinstance(owner.announced[-1], TermsWrong) and "prise" in owner.announced[-1].detail
    assert owner.availability() is Availability.AVAILABLE
    owner.write("price = 3\n")
    assert owner.rules.terms["GPU-1"].price_micro_per_hour == 3_000_000
    assert owner.rules.trouble() == ("", "")


def test_a_file_that_is_wrong_from_the_start_offers_nothing(tmp_path: Path) -> None:
    (tmp_path / "provider.toml").write_text("prise = 4\n")
    owner = Owner(tmp_path)
    assert owner.availability() is Availability.PAUSED
    owner.write("price = 4\n")
    assert owner.availability() is Availability.AVAILABLE


def test_the_file_is_read_again_only_if_its_metadata_changed(owner: Owner) -> None:
    assert not owner.rules.reread_if_changed()
    owner.path.write_text("paused = true\n")
    rereads = [owner.rules.reread_if_changed() for _ in range(3)]
    assert rereads == [False, True, False]
    owner.path.unlink()
    assert [owner.rules.reread_if_changed() for _ in range(2)] == [False, True]
    assert not owner.rules.terms["GPU-1"].is_paused


def test_a_file_that_is_being_saved_takes_nothing_back(owner: Owner) -> None:
    owner.write("paused = true\nprice = 2\n")
    for text in ("", "price = 2\n", "price = 2\npaused = true\n"):
        owner.path.write_text(text)
        assert not owner.rules.reread_if_changed()
    assert owner.rules.terms["GPU-1"].is_paused


def test_bandwidth_is_limited_whether_the_server_knows_or_not(owner: Owner) -> None:
    owner.write('bandwidth = "5MB"\n')
    owner.write("")
    assert owner.bandwidths == [5_000_000, None]


def test_missing_devices_are_reported_and_the_rest_holds(owner: Owner) -> None:
    owner.write('price = 2\n[device."GPU-7"]\nprice = 1\n')
    detail, hint = owner.rules.trouble()
    assert "GPU-7" in detail and "GPU-1" in hint, "by the whole uuid, and which there are"
    assert "Their settings are ignored." in detail and "Nothing changes" not in detail
    assert owner.rules.terms["GPU-1"].price_micro_per_hour == 2_000_000
    owner.write("price = 3\nprise = 4\n")
    assert "Nothing changes until that is fixed." in owner.rules.trouble()[0]


def test_options_that_the_file_overrides_are_reported(tmp_path: Path) -> None:
    settings = settings_for("http://127.0.0.1:1", tmp_path)
    (tmp_path / "provider.toml").write_text("price = 2\ncores = 4\n")
    overridden = replace(settings, price_micro_per_hour=1, cores=4, disk_bytes=2**30)
    assert OwnerRules(tmp_path / "provider.toml", overridden).overridden() == ["--price"]
    assert OwnerRules(tmp_path / "provider.toml", settings).overridden() == []
    open_to_all = replace(settings, unsafe_no_sandbox=True, share_between_accounts=True)
    assert OwnerRules(tmp_path / "provider.toml", open_to_all).overridden() == []
    text = 'share_between_accounts = false\nsandbox = "bwrap"\n'
    (tmp_path / "provider.toml").write_text(text)
    assert OwnerRules(tmp_path / "provider.toml", open_to_all).overridden() == [
        "--share-between-accounts",
        "--unsafe-no-sandbox",
    ]


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("", True),
        ('kinds = ["script"]', True),
        ('kinds = ["container"]', False),
        (f'deny = ["{WALLET}"]', False),
        (f'deny = ["{WALLET.upper().replace("0X", "0x")}"]', False),
        (f'allow = ["{WALLET}"]', True),
        (f'allow = ["0x{"22" * 20}"]', False),
        (f'allow = ["{WALLET}"]\ndeny = ["{WALLET}"]', False),
    ],
)
def test_tasks_that_the_owner_refuses_do_not_run(owner: Owner, text: str, runs: bool) -> None:
    owner.write(text)
    grant, other_grant = a_grant(device="GPU-1"), a_grant(device="another")
    assert (owner.rules.may_run(OWNER, grant) is None) is runs
    assert owner.rules.may_run(OWNER, other_grant) is None
    # What an owner says of wallets, he says of others.
    assert (owner.rules.may_run(ACCOUNT, grant) is None) is (runs or "0x" in text)


async def test_a_card_that_falls_off_the_bus_ends_what_runs_on_it(owner: Owner) -> None:
    owner.busy = {"GPU-1"}
    await owner.sees(Sample(Health.LOST, "It is gone."))
    assert owner.availability() is Availability.SICK
    assert owner.events[-1] == DevicesWanted({"GPU-1": 0.0}, EndReason.DEVICE_LOST)
    await owner.sees(Sample())
    assert owner.availability() is Availability.AVAILABLE


async def test_owners_who_use_a_card_get_it_back_if_declared(owner: Owner) -> None:
    owner.write("idle_minutes = 5\nreclaim = true\ngrace = '7s'\n")
    owner.busy = {"GPU-1"}
    await owner.sees(Sample(utilisation_percent=90.0, pids=(1,)))
    assert owner.availability() is Availability.IN_USE
    assert owner.events[-1] == DevicesWanted({"GPU-1": 7.0}, EndReason.RECLAIMED, is_by_terms=True)
    assert owner.watch.statuses()[0].others == 1
    owner.events.clear()
    owner.write("idle_minutes = 5\n")
    assert not [event for event in owner.events if isinstance(event, DevicesWanted)]


async def test_a_drained_node_takes_nothing(owner: Owner) -> None:
    owner.watch.drain()
    assert owner.availability() is Availability.DRAINING
    assert owner.events == [closed("Its node finishes its running tasks and stops.")]


def wishes_of(owner: Owner, drained: list[str] | None = None) -> RemoteRequests:
    def drain() -> None:
        if drained is not None:
            drained.append("drained")

    directory = owner.path.parent
    return RemoteRequests(directory, lambda: NodeId("node_1"), owner.watch, drain, owner.beats)


async def carried_out(requests: RemoteRequests, number: int) -> None:
    running = asyncio.create_task(requests.run())
    try:
        async with asyncio.timeout(10):
            while requests.number() < number:
                await asyncio.sleep(0.005)
    finally:
        running.cancel()


async def test_wishes_are_carried_out_in_order_and_once_over_restarts(owner: Owner) -> None:
    requests, drained = wishes_of(owner), list[str]()
    sent_requests = [
        Wish(4, TermsChange(price_micro_per_hour=5_000_000)),
        Wish(3, TermsChange(price_micro_per_hour=4_000_000, is_paused=True)),
    ]
    requests.hear(sent_requests)
    await carried_out(requests, 4)
    assert owner.rules.terms["GPU-1"].price_micro_per_hour == 5_000_000
    assert owner.path.read_text() == 'price = "5"\npaused = true\n'
    assert not owner.beats.is_known, "the next heartbeat says so at once"
    restarted = wishes_of(owner, drained)
    assert restarted.number() == 4
    restarted.hear([*sent_requests, Wish(5, order=OwnerOrder(Order.DRAIN))])
    owner.write("price = 1\n")
    await carried_out(restarted, 5)
    assert owner.path.read_text() == "price = 1\n", "what was done is not done again"
    assert drained == ["drained"]


async def test_an_order_to_reclaim_pauses_and_calls_back(owner: Owner) -> None:
    requests = wishes_of(owner)
    requests.hear([Wish(1, order=OwnerOrder(Order.RECLAIM, ("GPU-1",)))])
    await carried_out(requests, 1)
    assert owner.availability() is Availability.PAUSED
    assert owner.events[-1] == DevicesWanted({"GPU-1": 30.0}, EndReason.RECLAIMED)
    assert owner.path.read_text() == "[device.GPU-1]\npaused = true\n"


async def test_a_wish_holds_also_while_the_file_is_wrong(owner: Owner) -> None:
    owner.write("price = 2\n")
    owner.write("prise = 2\n")
    requests = wishes_of(owner)
    requests.hear([Wish(1, TermsChange(is_paused=True))])
    await carried_out(requests, 1)
    assert owner.availability() is Availability.PAUSED
    assert owner.path.read_text() == "prise = 2\n"
    # And over a crash: the server does not say it again.
    owner = Owner(owner.path.parent)
    assert owner.availability() is Availability.PAUSED
    owner.write("price = 3\n")
    assert owner.path.read_text() == "price = 3\npaused = true\n"
    assert owner.availability() is Availability.PAUSED
    owner.write("price = 3\n")
    assert Owner(owner.path.parent).availability() is Availability.AVAILABLE, "it was written once"


async def test_an_unwritten_owner_request_survives_a_crash_and_is_reported(
    owner: Owner, tmp_path: Path
) -> None:
    owner.path.symlink_to(tmp_path / "unmounted" / "provider.toml")
    requests = wishes_of(owner)
    requests.hear([Wish(1, TermsChange(is_paused=True, price_micro_per_hour=None))])
    await carried_out(requests, 1)
    restarted = Owner(owner.path.parent)
    assert restarted.availability() is Availability.PAUSED
    assert "are in effect" in restarted.rules.trouble()[0]
    (tmp_path / "unmounted").mkdir()
    (tmp_path / "unmounted" / "provider.toml").write_text("price = 3\n")
    restarted.watch.reread()
    assert restarted.rules.terms["GPU-1"].price_micro_per_hour == 0
    assert (tmp_path / "unmounted" / "provider.toml").read_text() == "paused = true\n"


def test_a_device_is_freed_even_if_its_pause_cannot_be_saved(owner: Owner) -> None:
    owner.write("price = 2\n")
    owner.write("prise = 2\n")
    (owner.path.parent / "unwritten.json").mkdir()  # as little to be written as a full disk
    with pytest.raises(OSError):
        owner.watch.reclaim(("GPU-1",))
    assert owner.availability() is Availability.PAUSED
    assert owner.events[-1] == DevicesWanted({"GPU-1": 30.0}, EndReason.RECLAIMED)
    assert not owner.beats.is_known


def test_later_terms_win_over_pending_writes(owner: Owner) -> None:
    owner.write("prise = 2\n")
    kept_change = TermsChange(is_paused=False, price_micro_per_hour=5_000_000, fractions=2)
    owner.watch.change(kept_change)
    # It ends, its owner mends the file, and says otherwise by commands.
    owner.path.write_text("")
    for change in (
        TermsChange(is_paused=True),
        TermsChange(devices=("GPU-1",), price_micro_per_hour=2_000_000),
    ):
        assert LocalTarget(owner.path.parent).change(change) is Effect.NEXT_START
    restarted = Owner(owner.path.parent)
    terms = restarted.rules.terms["GPU-1"]
    assert (terms.is_paused, terms.price_micro_per_hour, terms.fractions) == (True, 2_000_000, 2)
    assert not (owner.path.parent / "unwritten.json").exists()


async def test_an_invalid_owner_request_is_harmless(owner: Owner) -> None:
    requests = wishes_of(owner)
    requests.hear([Wish(1, TermsChange(hours="someday")), Wish(2, TermsChange(is_paused=True))])
    await carried_out(requests, 2)
    assert owner.availability() is Availability.PAUSED


async def test_a_change_wakes_its_waiters() -> None:
    counter = ChangeCounter()
    stale = asyncio.create_task(counter.until_stale())
    await asyncio.sleep(0)
    counter.change()
    await stale
    waiting_task = asyncio.create_task(counter.until_known())
    await asyncio.sleep(0)
    counter.change()
    assert not waiting_task.done()
    counter.acknowledge(1)
    await waiting_task
    assert not counter.is_known
    counter.acknowledge(2)
    assert counter.is_known
