"""NVIDIA cards, from NVML, in a child process (see query_process.py).

A query that an older driver does not support yields no value, and no error.
"""

from contextlib import suppress

from potluck.model.device import Health
from potluck.provider.detect import plausible
from potluck.provider.detect.nvidia_cards import Card, Cards, list_cards
from potluck.provider.detect.nvml import MAY_NOT, Library, NvmlError
from potluck.provider.detect.question import DeviceSamples, serve
from potluck.provider.detect.report import RouteAnswer, answer_with
from potluck.provider.detect.types import Sample

_OF_THE_CARD = 0
_UNCORRECTED, _SINCE_THE_DRIVER_WAS_LOADED = 1, 0
# Reasons for a lower clock: hardware slowdown, thermal (by the driver, by the hardware), power
# brake. A power limit set by a user does not count.
_SLOWED = 0x8 | 0x20 | 0x40 | 0x80
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
_PROCESSES = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
_MOST_LOOKS_BETWEEN = 15


class Nvidia:
    """Cards and MIG instances, as they were when the library was opened."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._cards: Cards | None = None
        self._known: set[str] = set()
        self._looks_between = self._looks_left = 0

    def find(self) -> RouteAnswer:
        try:
            cards = self._open()
        except NvmlError as trouble:
            return trouble.as_answer()
        devices = tuple(card.device for card in cards.by_uuid.values())
        hint = "Check the output of nvidia-smi." if cards.troubles else ""
        return answer_with(devices, " ".join(cards.troubles), hint)

    def look(self) -> DeviceSamples:
        try:
            cards = self._open()
        except NvmlError as trouble:
            return DeviceSamples({}, trouble.as_answer().detail)
        samples = {uuid: self._sample(card) for uuid, card in cards.by_uuid.items()}
        alive = {uuid for uuid, sample in samples.items() if sample.health is not Health.LOST}
        self._look_again(bool(cards.troubles) or not self._known <= alive)
        return DeviceSamples(samples, " ".join(cards.troubles))

    def set_power(self, uuid: str, watts: int | None) -> str | None:
        try:
            card = self._open().by_uuid.get(uuid)
            return self._limit(card, watts) if card else f"{uuid} does not answer."
        except NvmlError as trouble:
            if trouble.code == MAY_NOT:
                return "Only root may set the power limit of an NVIDIA card."
            return f"The power limit could not be set: {trouble}."

    def _limit(self, card: Card, watts: int | None) -> str | None:
        library, model = self._library, card.device.model
        if card.device.is_partition:
            return f"{model} is a MIG instance; the power limit applies to the whole card."
        if watts is None:
            limit = library.must("nvmlDeviceGetPowerManagementDefaultLimit", card.handle)
        else:
            limit = watts * 1_000
        bounds = library.ask("nvmlDeviceGetPowerManagementLimitConstraints", card.handle)
        if bounds and not bounds[0] <= limit <= bounds[1]:
            least, most = bounds[0] // 1_000, bounds[1] // 1_000
            return f"{model} takes a power limit from {least} to {most} W."
        # Read first: keeping the current limit needs no permission.
        if library.ask("nvmlDeviceGetPowerManagementLimit", card.handle) != limit:
            library.must("nvmlDeviceSetPowerManagementLimit", card.handle, limit)
        return None

    def _look_again(self, some_are_lost: bool) -> None:
        """NVML forgets a lost card only when it is reopened, which is slow: it is reopened at the
        next sample, then at growing intervals.
        """
        if not some_are_lost:
            self._looks_between = self._looks_left = 0
        elif self._looks_left:
            self._looks_left -= 1
        else:
            self._close()
            self._looks_left = self._looks_between
            self._looks_between = min(2 * self._looks_between + 1, _MOST_LOOKS_BETWEEN)

    def _open(self) -> Cards:
        if self._cards is None:
            self._library.must("nvmlInit")
            try:
                self._cards = list_cards(self._library)
            except NvmlError:
                self._close()
                raise
            self._known |= self._cards.by_uuid.keys()
        return self._cards

    def _close(self) -> None:
        self._cards = None
        with suppress(NvmlError):
            self._library.must("nvmlShutdown")

    def _sample(self, card: Card) -> Sample:
        try:
            return self._read(card)
        except NvmlError as trouble:
            return Sample(Health.LOST, f"{card.device.model} does not answer: {trouble}.")

    def _read(self, card: Card) -> Sample:
        """Memory and utilisation are the instance's; temperature and power the whole card's."""
        ask = self._library.ask
        memory = ask("nvmlDeviceGetMemoryInfo", card.handle)
        use = ask("nvmlDeviceGetUtilizationRates", card.handle)
        drawn = ask("nvmlDeviceGetPowerUsage", card.whole)
        heat = ask("nvmlDeviceGetTemperature", card.whole, _OF_THE_CARD)
        errors = ask(
            "nvmlDeviceGetTotalEccErrors", card.whole, _UNCORRECTED, _SINCE_THE_DRIVER_WAS_LOADED
        )
        is_slowed = bool((self._library.first(_REASONS, card.whole) or 0) & _SLOWED)
        return Sample(
            health=Health.THROTTLED if is_slowed else Health.WELL,
            detail=f"{card.device.model} is too hot or short of power." if is_slowed else "",
            utilisation_percent=plausible.percent(use.gpu) if use else None,
            temperature_celsius=plausible.celsius(heat),
            memory_used_bytes=plausible.memory_bytes(memory.used) if memory else None,
            power_watts=plausible.watts(drawn / 1_000) if drawn is not None else None,
            memory_errors=plausible.count(errors),
            pids=self._pids(card),
        )

    def _pids(self, card: Card) -> tuple[int, ...] | None:
        """Compute processes only: a desktop is always on its card, and does not count as use."""
        running = self._library.first(_PROCESSES, card.whole)
        if running is None:
            return None
        device = card.device
        instance = (device.gpu_instance, device.compute_instance)
        return plausible.pids(
            [
                process.pid
                for process in running
                if not device.is_partition
                or (process.gpuInstanceId, process.computeInstanceId) == instance
            ]
        )


if __name__ == "__main__":
    serve(Nvidia(Library()))
