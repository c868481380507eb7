"""Forecasts the start of a waiting task from reservations, recent starts or running attempts."""

from math import exp, log

from msgspec import Struct

from potluck.decide.pool.suitable_devices import UsableDevices
from potluck.decide.reservations.reserve import Reservations
from potluck.decide.reservations.timetable import Timetable, amounts
from potluck.decide.types import WaitingTask
from potluck.model.ids import NodeId

# Starts that are this old count half.
HALF_LIFE_SECONDS = 1800.0
_FADING = log(2) / HALF_LIFE_SECONDS
# Fewer starts are no basis for a forecast.
LEAST_STARTS = 3.0
# A shorter wait means that capacity was free, which says nothing about the rate of starts.
_NO_WAIT_SECONDS = 1.0
_MOST_SHAPES = 10_000


class _Rate(Struct):
    starts: float
    seconds: float  # during which tasks waited; idle times do not count
    at: float

    def fade_to(self, now: float) -> None:
        if now != self.at:
            left = exp(-_FADING * max(0.0, now - self.at))
            self.starts, self.seconds, self.at = self.starts * left, self.seconds * left, now


class StartRates:
    """The rate of starts of each shape while tasks of it waited."""

    def __init__(self) -> None:
        self._rates: dict[object, _Rate] = {}

    def count(self, shape: object, waits_since: float, now: float) -> None:
        rate = self._rates.get(shape)
        if rate is None:
            if len(self._rates) >= _MOST_SHAPES:
                self._rates.pop(next(iter(self._rates)))
            rate = self._rates[shape] = _Rate(0.0, 0.0, now)
        if now != rate.at:
            waited = max(0.0, now - max(rate.at, waits_since))
            rate.fade_to(now)
            rate.seconds += waited
        if now - waits_since >= _NO_WAIT_SECONDS:
            rate.starts += 1

    def each_seconds(self, shape: object, waits_since: float, now: float) -> float | None:
        """The seconds between two starts, for a task that waits since then; None if too few."""
        rate = self._rates.get(shape)
        if rate is None:
            return None
        left = exp(-_FADING * max(0.0, now - rate.at))
        waited = max(0.0, now - max(rate.at, waits_since))
        starts = rate.starts * left
        return (rate.seconds * left + waited) / starts if starts >= LEAST_STARTS else None


class Forecast(Struct, frozen=True):
    start: float
    basis: str  # the reason for the forecast, as shown to users


class StartForecaster:
    def __init__(self, reservations: Reservations, rates: StartRates, timetable: Timetable) -> None:
        self._reservations = reservations
        self._rates = rates
        self._timetable = timetable

    def forecast(
        self,
        task: WaitingTask,
        place: tuple[object, int],
        suitable: dict[NodeId, UsableDevices],
        now: float,
    ) -> Forecast | None:
        """`place` is its shape, and its position among the tasks of that shape, from 1."""
        shape, position = place
        if not suitable:
            return None
        reserved_start = self._reservations.start_of(task.id)
        if reserved_start is not None:
            return Forecast(
                max(now, reserved_start), "devices are reserved for it and should be free by then"
            )
        each = self._rates.each_seconds(shape, task.submitted_at, now)
        if each is not None:
            basis = f"a similar task has recently started every {_span(each)}"
            return Forecast(now + position * each, basis)
        return self._by_ends(task, position, suitable, now)

    def _by_ends(
        self, task: WaitingTask, position: int, suitable: dict[NodeId, UsableDevices], now: float
    ) -> Forecast | None:
        """By the expected ends of running attempts; only for the first task in order."""
        if position > 1 or len(suitable) < task.nodes:
            return None
        times = sorted(self._soonest(task, node_id, each) for node_id, each in suitable.items())
        start = times[task.nodes - 1]
        return (
            Forecast(start, "the tasks running there should end by then") if start > now else None
        )

    def _soonest(self, task: WaitingTask, node_id: NodeId, usable: UsableDevices) -> float:
        times = self._timetable.free_at(node_id)
        count = usable.whole_wanted(task)
        ends = [end for end, device_id in times if device_id in usable.whole]
        at = ends[count - 1] if count else 0.0
        return self._timetable.resources_at(node_id, amounts(task.requirements), at, [])


def _span(seconds: float) -> str:
    if seconds < 1:
        return "second or faster"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
