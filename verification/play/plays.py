"""What an attempt comes to: as it would, or as a player has it."""

import random
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.charges import DEFAULT_TIMES
from potluck.model.lease import AttemptState
from potluck.model.task import END_REASONS, EndReason, Reporter

LIMIT_SECONDS = 4 * 3600.0
_MINUTE = 60.0
_FETCH_SECONDS = 15.0
# Between two outages of a node, and how soon a task with the shortest allowed limit of
# silence is stopped then: 60 s after the first beat that is overdue.
_BETWEEN_OUTAGES_SECONDS = 7 * 86_400.0
_STOPPED_SECONDS = 84.0
_SLICE_SECONDS = DEFAULT_TIMES.slice_seconds
# Of a node's attempts: `failure_record.py` doubts a node from a quarter on.
_BELOW_DOUBT = 0.2
_SOMETIMES = 0.05  # with claims of an hour, a tenth of its time
_RARELY = 0.006  # with the longest claims, nearly a tenth of its time


class Conduct(Struct, frozen=True):
    """How an attempt ends."""

    reason: EndReason
    seconds: float  # until then
    run_seconds: float  # of these, the time in which the consumer's code really ran
    has_output: bool = True
    has_started: bool = True
    is_in_contact: bool = False  # heartbeats came, whatever the reason says
    checkpoint_seconds: float | None = None  # between checkpoints that the server acknowledged
    is_unfunded: bool = False  # the consumer has no credit but for the hold


class PlayedTask(Struct):
    """A task, with what it would take."""

    seconds: float
    max_attempts: int
    is_faulty: bool  # its own code fails
    silence_seconds: float | None


Play = Callable[[PlayedTask, random.Random], Conduct]


def new_task(chance: random.Random) -> PlayedTask:
    """An honest consumer's: between 5 and 35 minutes; one of 25 fails by itself."""
    return PlayedTask(
        seconds=chance.uniform(5 * _MINUTE, 35 * _MINUTE),
        max_attempts=chance.choice((1, 3)),
        is_faulty=chance.random() < 0.04,
        silence_seconds=10 * _MINUTE if chance.random() < 0.2 else None,
    )


def honest(task: PlayedTask, _: random.Random) -> Conduct:
    reason = EndReason.EXIT_STATUS if task.is_faulty else EndReason.COMPLETED
    return Conduct(reason, task.seconds, task.seconds)


def consumer_plays() -> dict[str, Play]:
    """Each reason that a task, or its owner, can cause alone."""
    failures = [
        reason
        for reason, facts in END_REASONS.items()
        if facts.attempt_state is AttemptState.FAILED and facts.reporter is Reporter.ITEM
    ]
    return {
        **{f"{reason}": _search(reason) for reason in failures},
        "cancelled": lambda task, _: Conduct(EndReason.CANCELLED, task.seconds, task.seconds),
        "cancelled, just before a slice ends": _cancel_before_boundary,
        "credit, unfunded on purpose": _unfunded,
        "silence": _shortest_silence,
    }


def provider_plays() -> dict[str, Play]:
    """Each reason that a node can report, or make the server conclude."""
    server_concludes = (EndReason.LEASE_EXPIRED, EndReason.WITHDRAWN)
    plays: dict[str, Play] = {}
    for reason, facts in END_REASONS.items():
        if facts.reporter is Reporter.SERVER and reason not in server_concludes:
            continue
        if reason is EndReason.CREDIT:
            continue  # the server accepts it only where it asked for it
        match facts.attempt_state:
            case AttemptState.SUCCEEDED:
                plays[reason] = _claim(reason, 1.0)
            case AttemptState.FAILED if facts.reporter is Reporter.ITEM:
                plays[reason] = _claim(reason, LIMIT_SECONDS)
                plays[f"{reason}, with a made-up log"] = _claim(reason, LIMIT_SECONDS, log=True)
            case AttemptState.FAILED:
                plays[reason] = _refusal(reason)
            case _ if reason is EndReason.SILENCE:
                plays[reason] = _false_silence(False)
                plays[f"{reason}, with a made-up log"] = _false_silence(True)
            case _ if reason in (EndReason.DECLINED, EndReason.WITHDRAWN, EndReason.SANDBOX_FAILED):
                plays[reason] = _every_other(_refusal(reason))
            case _:
                plays[reason] = _every_other(_drop(reason))
    limit = EndReason.TIME_LIMIT
    idle, idle_with_log = _claim(limit, LIMIT_SECONDS), _claim(limit, LIMIT_SECONDS, log=True)
    plays[f"{limit}, below doubt"] = _seldom(idle, _BELOW_DOUBT)
    plays[f"{limit}, below doubt, with a made-up log"] = _seldom(idle_with_log, _BELOW_DOUBT)
    plays[f"{limit}, rarely, with a made-up log"] = _seldom(idle_with_log, _RARELY)
    failed = EndReason.EXIT_STATUS
    an_hour = _claim(failed, 3600.0, log=True)
    plays[f"{failed}, after an hour, with a made-up log"] = _seldom(an_hour, _SOMETIMES)
    lost = EndReason.LEASE_EXPIRED
    plays[f"{lost}, checkpoints never sent"] = _every_other(_drop(lost))
    plays[f"{lost}, after each checkpoint"] = _drop_after_checkpoint(lost)
    return plays


def _search(reason: EndReason) -> Play:
    """Does the work, and fails without a word: that is the answer that it wants."""
    return lambda task, _: Conduct(reason, task.seconds, task.seconds, has_output=False)


def _shortest_silence(task: PlayedTask, chance: random.Random) -> Conduct:
    """With the shortest limit each outage ends it, and its checkpoints have cost nothing."""
    outage_at = chance.expovariate(1 / _BETWEEN_OUTAGES_SECONDS)
    if outage_at >= task.seconds:
        return Conduct(EndReason.COMPLETED, task.seconds, task.seconds)
    seconds = outage_at + _STOPPED_SECONDS
    return Conduct(EndReason.SILENCE, seconds, seconds)


def _claim(reason: EndReason, seconds: float, *, log: bool = False) -> Play:
    """Says that it was started, and idles for this time."""
    return lambda _task, _: Conduct(reason, seconds, 0.0, has_output=log)


def _refusal(reason: EndReason) -> Play:
    return lambda _task, _: Conduct(
        reason, _FETCH_SECONDS, 0.0, has_output=False, has_started=False
    )


def _drop(reason: EndReason) -> Play:
    return lambda task, _: Conduct(reason, task.seconds / 2, task.seconds / 2)


def _false_silence(log: bool) -> Play:
    """Idles, and says that the server was silent, if the task has a limit for that."""

    def play(task: PlayedTask, chance: random.Random) -> Conduct:
        if task.silence_seconds is None:
            return honest(task, chance)
        idle = LIMIT_SECONDS
        return Conduct(EndReason.SILENCE, idle, 0.0, has_output=log, is_in_contact=True)

    return play


def _every_other(play: Play) -> Play:
    return lambda task, chance: (play if chance.random() < 0.5 else honest)(task, chance)


def _seldom(play: Play, share: float) -> Play:
    """For fewer attempts than make a node doubted, or for less of its time."""
    return lambda task, chance: (play if chance.random() < share else honest)(task, chance)


def _drop_after_checkpoint(reason: EndReason) -> Play:
    """Is paid for what is secured, and leaves the rest to others."""
    seconds = _SLICE_SECONDS + 1
    return lambda task, _: Conduct(
        reason, min(task.seconds, seconds), min(task.seconds, seconds), checkpoint_seconds=_MINUTE
    )


def _cancel_before_boundary(task: PlayedTask, _: random.Random) -> Conduct:
    seconds = min(task.seconds, _SLICE_SECONDS - 1)
    return Conduct(EndReason.CANCELLED, seconds, seconds)


def _unfunded(task: PlayedTask, chance: random.Random) -> Conduct:
    """Has credit for the first hold only, so that each attempt is stopped, after a checkpoint."""
    return replace(honest(task, chance), is_unfunded=True, checkpoint_seconds=_MINUTE)
