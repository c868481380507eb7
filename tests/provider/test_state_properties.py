"""What holds whatever the server, the runs and the network do, in whatever order."""

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.ids import AttemptId
from potluck.model.lease import Lease
from potluck.model.task import EndReason
from potluck.provider.event import (
    CodeStarted,
    DevicesClosed,
    DevicesWanted,
    Event,
    FinishAccepted,
    Granted,
    GrantRefusal,
    ItemsAccepted,
    ItemsEnded,
    LeaseLost,
    LogAcknowledged,
    ParcelsShipped,
    PrepareBegan,
    Recovered,
    RunEnded,
    ShutdownRequested,
    SilenceLasted,
)
from potluck.provider.instruction import (
    Conclude,
    Drop,
    Forget,
    Instruction,
    Keep,
    RecallAttempt,
    Remember,
    SendReport,
    StartAttempt,
    StopAttempt,
)
from potluck.provider.state import Attempts
from potluck.store.new_ids import new_task_id
from potluck.wire.provider import Finished, Grant, ItemOutcome, ItemsDone
from tests.provider.builders import a_grant, completed, lease_of

DEVICES = ("one", "two")
SILENCE_SECONDS = 50.0


class World(RuleBasedStateMachine):
    """A server, runs and a journal, as they are seen from outside the machine."""

    grants = Bundle("grants")

    @initialize(earlier=st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=3))
    def begin(self, earlier: list[tuple[bool, int]]) -> None:
        self.attempts = Attempts(SILENCE_SECONDS)
        self.numbers = count()
        self.started: set[AttemptId] = set()
        self.running: dict[AttemptId, Grant] = {}
        self.told_to_stop: set[AttemptId] = set()
        self.called_off: set[AttemptId] = set()
        self.journal: dict[AttemptId, Finished | None] = {}
        self.acknowledged: dict[AttemptId, int] = {}
        self.written: dict[AttemptId, int] = {}
        self.left: dict[AttemptId, int] = {}  # files of it
        self.shipped: dict[AttemptId, int] = {}
        self.outcomes: dict[AttemptId, Finished] = {}
        self.kept: dict[AttemptId, list[ItemsDone]] = {}  # outcomes of items in the journal
        self.items: dict[AttemptId, list[ItemsDone]] = {}  # told to the server
        self.ever_held: set[AttemptId] = set()
        self.settled: set[AttemptId] = set()
        self.closed: set[str] = set()
        self.recalled: dict[AttemptId, RecallAttempt] = {}
        self.is_leaving = False
        for is_finished, pieces in earlier:
            self.recover(lease_of(self.new_grant()), is_finished, pieces)

    def new_grant(self, device: str = "one", milli: int = 1000) -> Grant:
        """Numbered, not random: a failing example must replay."""
        attempt_id = AttemptId(f"attempt_{next(self.numbers):026d}")
        return a_grant(attempt_id=attempt_id, device=device, milli=milli)

    def recover(self, lease: Lease, is_finished: bool, pieces: int) -> None:
        finished = completed(lease) if is_finished else None
        self.journal[lease.attempt_id] = finished
        self.ever_held.add(lease.attempt_id)
        self.written[lease.attempt_id] = pieces
        self.feed(Recovered(lease, new_task_id(), finished, pieces))

    def feed(self, event: Event) -> None:
        for instruction in self.attempts.handle(event):
            self.obey(instruction)

    def obey(self, instruction: Instruction) -> None:  # noqa: C901, the table of instructions
        match instruction:
            case Remember(lease):
                self.journal[lease.attempt_id] = None
                self.ever_held.add(lease.attempt_id)
            case Conclude(finished):
                self.journal[finished.lease.attempt_id] = finished
            case Forget(attempt_id):
                assert self.journal.pop(attempt_id, "absent") != "absent", "forgotten twice"
                self.kept.pop(attempt_id, None)
                self.settled.add(attempt_id)
            case Keep(report):
                assert report.lease.attempt_id in self.journal
                self.kept.setdefault(report.lease.attempt_id, []).append(report)
            case Drop(report):
                self.kept[report.lease.attempt_id].remove(report)
            case StartAttempt(grant):
                self.start(grant)
            case StopAttempt(attempt_id):
                assert attempt_id in self.running and attempt_id not in self.told_to_stop
                self.told_to_stop.add(attempt_id)
            case RecallAttempt(attempt_id, reason, grace_seconds):
                assert attempt_id in self.running and attempt_id not in self.told_to_stop
                if earlier := self.recalled.get(attempt_id):
                    assert reason is earlier.reason, "the first reason stays"
                    assert grace_seconds < earlier.grace_seconds, "only to hurry"
                self.recalled[attempt_id] = instruction
            case SendReport(report):
                self.receive(report.lease.attempt_id, report)

    def start(self, grant: Grant) -> None:
        assert grant.attempt_id not in self.started, "never two runs of one attempt"
        assert grant.attempt_id in self.journal, "remembered before it is started"
        assert not self.is_leaving and grant.attempt_id not in self.called_off
        assert not self.closed & {device.uuid for device in grant.devices}, "closed is closed"
        self.started.add(grant.attempt_id)
        self.running[grant.attempt_id] = grant

    def receive(self, attempt_id: AttemptId, report: object) -> None:
        assert attempt_id not in self.called_off, "nothing is reported after a stop"
        if isinstance(report, ItemsDone):
            assert report in self.kept[attempt_id], "written down before it is told"
            self.items.setdefault(attempt_id, []).append(report)
        if isinstance(report, Finished):
            assert attempt_id not in self.running
            assert self.journal[attempt_id] is not None, "concluded before it is reported"
            written = self.written.get(attempt_id, 0)
            assert self.acknowledged.get(attempt_id, 0) >= written, "logs come first"
            assert self.shipped.get(attempt_id, 0) >= self.left.get(attempt_id, 0), "and files"
            accepted_items = self.items.get(attempt_id, [])
            assert all(item in accepted_items for item in self.kept.get(attempt_id, [])), (
                "items, too"
            )
            self.outcomes[attempt_id] = report

    @rule(target=grants, device=st.sampled_from(DEVICES), milli=st.sampled_from([300, 700, 1000]))
    def grant(self, device: str, milli: int) -> Grant:
        grant = self.new_grant(device, milli)
        self.feed(Granted(grant))
        if device in self.closed and not self.is_leaving:
            assert grant.attempt_id not in self.started, "a closed device takes nothing"
            finished = self.journal[grant.attempt_id]
            assert finished is not None and finished.reason is EndReason.DECLINED
        return grant

    @rule(devices=st.sets(st.sampled_from(DEVICES)))
    def close_devices(self, devices: set[str]) -> None:
        was_running = set(self.running)
        self.closed = devices
        self.feed(
            DevicesClosed(dict.fromkeys(devices, GrantRefusal(EndReason.DECLINED, "Paused.")))
        )
        assert was_running <= set(self.running), "what runs goes on"

    @rule(
        devices=st.sets(st.sampled_from(DEVICES), min_size=1),
        seconds=st.sampled_from([0.0, 5.0, 30.0]),
        reason=st.sampled_from([EndReason.RECLAIMED, EndReason.DEVICE_LOST]),
    )
    def want_back(self, devices: set[str], seconds: float, reason: EndReason) -> None:
        self.feed(DevicesWanted(dict.fromkeys(devices, seconds), reason))
        ending = set(self.recalled) | self.told_to_stop | self.called_off
        wanted_ids = {
            attempt_id
            for attempt_id, grant in self.running.items()
            if grant.devices[0].uuid in devices
        }
        assert wanted_ids <= ending
        graces = [
            self.recalled[attempt_id].grace_seconds
            for attempt_id in wanted_ids & self.recalled.keys()
        ]
        assert all(grace <= seconds or wanted_ids & self.told_to_stop for grace in graces)

    @rule(grant=grants)
    def grant_again(self, grant: Grant) -> None:
        self.feed(Granted(grant))

    @rule(grant=grants, prepares=st.booleans())
    def progress(self, grant: Grant, prepares: bool) -> None:
        if grant.attempt_id in self.running:
            kind = PrepareBegan if prepares else CodeStarted
            self.feed(kind(grant.attempt_id))

    @rule(grant=grants, pieces=st.integers(0, 3), parcels=st.integers(0, 2))
    def end_of_a_run(self, grant: Grant, pieces: int, parcels: int) -> None:
        if self.running.pop(grant.attempt_id, None):
            outcome = self.outcome_of(grant)
            self.written[grant.attempt_id] = pieces
            self.left[grant.attempt_id] = parcels
            self.feed(RunEnded(grant.attempt_id, outcome, pieces, parcels))

    def outcome_of(self, grant: Grant) -> Finished | None:
        if grant.attempt_id in self.told_to_stop:
            return None
        recalled = self.recalled.get(grant.attempt_id)
        return (
            Finished(lease_of(grant), recalled.reason) if recalled else completed(lease_of(grant))
        )

    @rule(grant=grants, seconds=st.floats(0, 1))
    def end_of_an_item(self, grant: Grant, seconds: float) -> None:
        if grant.attempt_id in self.running:
            outcome = ItemOutcome(next(self.numbers), EndReason.COMPLETED, seconds, 0)
            self.feed(ItemsEnded(grant.attempt_id, (outcome,)))

    @rule(data=st.data())
    def accept_items(self, data: st.DataObject) -> None:
        item_reports = [report for reports in self.items.values() for report in reports]
        if item_reports:
            self.feed(ItemsAccepted(data.draw(st.sampled_from(item_reports))))

    @rule(seconds=st.floats(0, 100))
    def silence(self, seconds: float) -> None:
        self.feed(SilenceLasted(seconds))
        if seconds >= SILENCE_SECONDS:
            assert set(self.running) <= self.told_to_stop | self.called_off

    @rule(data=st.data(), pieces=st.integers(0, 3))
    def acknowledge_log(self, data: st.DataObject, pieces: int) -> None:
        if self.ever_held:
            attempt_id = data.draw(st.sampled_from(sorted(self.ever_held)))
            if pieces >= self.acknowledged.get(attempt_id, 0):
                self.acknowledged[attempt_id] = pieces
                self.feed(LogAcknowledged(attempt_id, pieces))

    @rule(data=st.data(), parcels=st.integers(0, 2))
    def ship_files(self, data: st.DataObject, parcels: int) -> None:
        if self.ever_held:
            attempt_id = data.draw(st.sampled_from(sorted(self.ever_held)))
            if parcels >= self.shipped.get(attempt_id, 0):
                self.shipped[attempt_id] = parcels
                self.feed(ParcelsShipped(attempt_id, parcels, 0))

    @rule(data=st.data())
    def accept_outcome(self, data: st.DataObject) -> None:
        if self.outcomes:
            self.feed(FinishAccepted(data.draw(st.sampled_from(sorted(self.outcomes)))))

    @rule(data=st.data())
    def call_off(self, data: st.DataObject) -> None:
        if self.ever_held:
            attempt_id = data.draw(st.sampled_from(sorted(self.ever_held)))
            self.feed(LeaseLost(attempt_id))
            self.called_off.add(attempt_id)

    @precondition(lambda self: not self.is_leaving)
    @rule()
    def shut_down(self) -> None:
        self.feed(ShutdownRequested())
        self.is_leaving = True
        assert set(self.running) <= self.told_to_stop | self.called_off

    @invariant()
    def devices_are_not_overcommitted(self) -> None:
        for device in DEVICES:
            shares = [
                part.milli
                for grant in self.running.values()
                for part in grant.devices
                if part.uuid == device
            ]
            assert sum(shares) <= WHOLE_DEVICE_MILLI

    @invariant()
    def the_journal_holds_exactly_what_is_held(self) -> None:
        held_ids = {lease.attempt_id for lease in self.attempts.held()}
        assert held_ids == set(self.journal)

    def teardown(self) -> None:
        """Everything granted is reported or called off, once all has calmed down."""
        if not hasattr(self, "attempts"):
            return
        self.calm_down()
        assert self.attempts.held() == ()
        assert self.settled == self.ever_held
        assert self.attempts.is_settled()

    def calm_down(self) -> None:
        while self.running or (self.outcomes.keys() & self.journal.keys()) or self.undelivered():
            for attempt_id, grant in list(self.running.items()):
                del self.running[attempt_id]
                self.feed(RunEnded(attempt_id, self.outcome_of(grant), 0))
            for reports in list(self.items.values()):
                for report in reports:
                    self.feed(ItemsAccepted(report))
            for attempt_id in self.undelivered():
                self.acknowledged[attempt_id] = 3
                self.feed(LogAcknowledged(attempt_id, 3))
                self.shipped[attempt_id] = 2
                self.feed(ParcelsShipped(attempt_id, 2, 0))
            for attempt_id in list(self.outcomes.keys() & self.journal.keys()):
                self.feed(FinishAccepted(attempt_id))

    def undelivered(self) -> list[AttemptId]:
        return [
            attempt_id
            for attempt_id, outcome in self.journal.items()
            if outcome and attempt_id not in self.outcomes
        ]


World.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestWorld = World.TestCase
