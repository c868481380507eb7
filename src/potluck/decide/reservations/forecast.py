"""When a waiting task will probably start, if there is anything to go by."""

from msgspec import Struct

from potluck.decide.pool.suitable_devices import UsableDevices
from potluck.decide.reservations.reserve import Reservations
from potluck.decide.reservations.start_rates import Rates
from potluck.decide.reservations.timetable import Timetable, amounts
from potluck.decide.types import WaitingTask
from potluck.model.ids import NodeId


class Forecast(Struct, frozen=True):
    start: float
    basis: str  # what the guess rests on


class Foresight:
    def __init__(self, reservations: Reservations, rates: Rates, timetable: Timetable) -> None:
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
        """`place`: its shape, and how many of that shape go before it, itself among them."""
        shape, position = place
        if not suitable:
            return None
        promised = self._reservations.start_of(task.id)
        if promised is not None:
            return Forecast(
                max(now, promised), "devices are kept for it, and by then what runs there is over"
            )
        each = self._rates.each_seconds(shape, task.submitted_at, now)
        if each is not None:
            basis = f"one like it has started every {_span(each)} lately"
            return Forecast(now + position * each, basis)
        return self._by_ends(task, position, suitable, now)

    def _by_ends(
        self,
        task: WaitingTask,
        position: int,
        suitable: dict[NodeId, UsableDevices],
        now: float,
    ) -> Forecast | None:
        """By the ends of what runs, for the first in line; who stands behind it is not known."""
        if position > 1 or len(suitable) < task.nodes:
            return None
        times = sorted(self._soonest(task, node_id, each) for node_id, each in suitable.items())
        start = times[task.nodes - 1]
        return Forecast(start, "what runs there should be over by then") if start > now else None

    def _soonest(self, task: WaitingTask, node_id: NodeId, usable: UsableDevices) -> float:
        times = self._timetable.free_at(node_id)
        count = usable.whole_wanted(task)
        ends = [end for end, device_id in times if device_id in usable.whole]
        at = ends[count - 1] if count else 0.0
        return self._timetable.room_at(node_id, amounts(task.requirements), at, [])


def _span(seconds: float) -> str:
    if seconds < 1:
        return "second or faster"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
