"""How each requirement can be relaxed, and the sentence that suggests it."""

from collections.abc import Callable
from math import floor, log10

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.pool.feasibility import Refusal, price_of, suitable
from potluck.decide.types import FreeDevice, FreeNode, WaitingTask
from potluck.model.credit import MICRO
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.task import GIB, MIB

_Devices = tuple[FreeDevice, ...]


def relax(task: WaitingTask, field: str, value: object) -> WaitingTask:
    requirements = replace(task.requirements, **{field: value})
    return replace(task, requirements=requirements)


class Measure(Struct, frozen=True):
    """A requirement with a figure, and what a node has of it."""

    field: str
    least: int | float | None
    of_node: Callable[[FreeNode, _Devices, WaitingTask], float]
    text: Callable[[float, int], str]  # of a figure and a number of digits; never rounded up
    words: str
    is_ceiling: bool = False  # more of it suits more nodes
    noun: tuple[str, str] = ("", "")  # singular and plural of what is counted

    def asked(self, task: WaitingTask) -> float | None:
        """The task's figure; None if there is nothing to relax."""
        figure: float | None = getattr(task.requirements, self.field)
        return None if figure == self.least else figure

    def nearest(self, task: WaitingTask, node: FreeNode) -> float | None:
        """The figure closest to the task's with which the node takes it; None if there is none.

        It can be less than the node has, because more cores or devices also cost more. Those are
        whole numbers, and fewer of them never cause a new refusal, so bisection finds it.
        """
        devices = suitable(relax(task, self.field, self.least), node)
        if isinstance(devices, Refusal):
            return None
        figure = self.of_node(node, devices, task)
        if self._suits(task, node, figure) or self.least is None:
            return figure
        fits, refused = int(self.least), int(figure)
        while refused - fits > 1:
            middle = (fits + refused) // 2
            if self._suits(task, node, middle):
                fits = middle
            else:
                refused = middle
        return fits

    def _suits(self, task: WaitingTask, node: FreeNode, figure: float) -> bool:
        return not isinstance(suitable(relax(task, self.field, figure), node), Refusal)

    def condition(self, figure: float, asked: float) -> str:
        """The sentence, with enough digits to distinguish the two figures."""
        for digits in _DIGITS:
            shown, wanted = self.text(figure, digits), self.text(asked, digits)
            if shown != wanted:
                break
        return self.words.format(f"{shown} {self.noun[figure != 1]}".rstrip(), wanted)


_DIGITS = (3, 6, 15)


def _price(node: FreeNode, devices: _Devices, task: WaitingTask) -> float:
    """The price of everything that the task would take there: the ceiling covers it too."""
    wanted = task.requirements
    return sorted(price_of(wanted, each, node.cores) for each in devices)[wanted.device_count - 1]


def _memory(_node: FreeNode, devices: _Devices, task: WaitingTask) -> float:
    count = task.requirements.device_count
    return sorted((each.memory_bytes for each in devices), reverse=True)[count - 1]


def _part(_node: FreeNode, devices: _Devices, _task: WaitingTask) -> float:
    """The smallest share that any of them offers."""
    return min(each.least_milli for each in devices)


def _bytes_text(figure: float, digits: int) -> str:
    size, unit = next((each for each in _SIZES if figure >= each[0]), _SIZES[-1])
    return f"{_rounded_down(figure / size, digits):.15g} {unit}"


def _rounded_down(figure: float, digits: int) -> float:
    """Down, because more than the node has would not help."""
    if figure <= 0:
        return 0
    return _cut(figure, max(0, digits - 1 - floor(log10(figure))))


def _cut(figure: float, places: int) -> float:
    scale = 10.0**places
    return floor(figure * scale + 1e-9) / scale


_SIZES = ((1024 * GIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"))


def _credit_text(figure: float, _digits: int) -> str:
    """In full: a ceiling that was rounded down would not help."""
    whole, part = f"{figure / MICRO:.6f}".split(".")
    return f"{whole}.{part.rstrip('0'):0<2}"


def _count_text(figure: float, _digits: int) -> str:
    return f"{figure:g}"


def _milli_text(figure: float, _digits: int) -> str:
    return f"{figure / WHOLE_DEVICE_MILLI:g}"


def _part_text(figure: float, digits: int) -> str:
    return f"{_cut(figure, 2):.2f}" if digits == _DIGITS[0] else f"{_cut(figure, digits):g}"


# Requirements without a figure.
PLAIN = {
    "device_kind": "a device of kind",
    "device_vendor": "the vendor",
    "device_model": "the model",
    "compute_capability": "compute capability",
    "sandbox": "a sandbox of strength",
    "python": "Python",
}
MEASURES = (
    Measure(
        "max_price_micro_per_hour",
        None,
        _price,
        _credit_text,
        "with a price ceiling of {} an hour instead of {}",
        is_ceiling=True,
    ),
    Measure(
        "device_memory_bytes",
        0,
        _memory,
        _bytes_text,
        "if it requested {} of device memory instead of {}",
    ),
    Measure(
        "device_count",
        1,
        lambda _node, devices, _task: len(devices),
        _count_text,
        "if it requested {} on one node instead of {}",
        noun=("device", "devices"),
    ),
    Measure(
        "device_milli",
        WHOLE_DEVICE_MILLI,
        _part,
        _milli_text,
        "if it requested {} of a device instead of {}",
        is_ceiling=True,
    ),
    Measure(
        "min_reliability",
        None,
        lambda node, _devices, _task: node.reliability,
        _part_text,
        "if it accepted a reliability of {} instead of {}",
    ),
    Measure(
        "cores",
        1,
        lambda node, _devices, _task: node.cores,
        _count_text,
        "if it requested {} instead of {}",
        noun=("core", "cores"),
    ),
    Measure(
        "memory_bytes",
        16 * MIB,
        lambda node, _devices, _task: node.memory_bytes,
        _bytes_text,
        "if it requested {} of memory instead of {}",
    ),
    Measure(
        "disk_bytes",
        MIB,
        lambda node, _devices, task: node.disk_bytes_for(task.account_id, task.requirements),
        _bytes_text,
        "if it requested {} of disk instead of {}",
    ),
)
MEASURE_OF = {measure.field: measure for measure in MEASURES}
# The requirement behind each refusal. Refusals by an owner's terms have none.
FIELD_OF = {
    Refusal.OWNER: "owners",
    Refusal.SANDBOX: "sandbox",
    Refusal.PYTHON: "python",
    Refusal.LABELS: "labels",
    Refusal.RELIABILITY: "min_reliability",
    Refusal.DEVICE_KIND: "device_kind",
    Refusal.DEVICE_VENDOR: "device_vendor",
    Refusal.DEVICE_MODEL: "device_model",
    Refusal.COMPUTE_CAPABILITY: "compute_capability",
    Refusal.DEVICE_MEMORY: "device_memory_bytes",
    Refusal.FRACTION: "device_milli",
    Refusal.NETWORK: "network",
    Refusal.DEVICE_COUNT: "device_count",
    Refusal.PRICE: "max_price_micro_per_hour",
    Refusal.CORES: "cores",
    Refusal.MEMORY: "memory_bytes",
    Refusal.DISK: "disk_bytes",
}
