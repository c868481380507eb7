"""NVIDIA's library, asked so that whatever it answers is a value or a Trouble."""

from collections.abc import Callable
from typing import Any

from potluck.provider.detect.report import RouteAnswer, RouteOutcome

NOT_FOUND = 6
MAY_NOT = 4
_NOT_LOADED = 9
_NO_LIBRARY = 12
_TOO_OLD = 13
_MISMATCH = 18
# Not loaded any more, lost, to be reset, not to be found.
_IS_LOST = {_NOT_LOADED, 15, 16, 28}
_UNREADABLE = 999

_HINTS = {
    MAY_NOT: "Let this user open /dev/nvidia*, as the groups video or render may.",
    _NOT_LOADED: "Load it (modprobe nvidia), or restart the machine if it was just installed.",
    _NO_LIBRARY: "If there is an NVIDIA card in this machine, install its driver.",
    _TOO_OLD: "Install a newer driver.",
    _MISMATCH: "The driver was updated while it was in use: restart the machine.",
}


class NvmlError(Exception):
    """The library has no answer, and says why."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code = code

    @property
    def is_lost(self) -> bool:
        """Whether the device itself is gone, or its driver."""
        return self.code in _IS_LOST

    def as_answer(self) -> RouteAnswer:
        """To whoever asked for devices."""
        outcome = RouteOutcome.MISSING if self.code == _NO_LIBRARY else RouteOutcome.FAILED
        hint = _HINTS.get(self.code, "See what nvidia-smi says; it asks the same library.")
        return RouteAnswer(outcome, detail=f"NVML says: {self}.", hint=hint)


class Library:
    """NVML by its Python bindings. Drivers differ in which functions they know."""

    def __init__(self) -> None:
        import pynvml

        self.nvml: Any = pynvml

    def must(self, function: str, *arguments: Any) -> Any:
        """The answer, or Trouble."""
        try:
            asked: Callable[..., Any] = getattr(self.nvml, function)
            return asked(*arguments)
        except self.nvml.NVMLError as error:
            raise NvmlError(error.value, str(error)) from error
        except (ValueError, ArithmeticError, MemoryError) as error:
            # Text that is none, numbers of things that nobody has room for.
            raise NvmlError(_UNREADABLE, f"unreadable ({type(error).__name__})") from error

    def ask(self, function: str, *arguments: Any) -> Any:
        """Nothing where this driver, card or user gets no answer; Trouble of a lost card."""
        try:
            return self.must(function, *arguments)
        except NvmlError as trouble:
            if trouble.is_lost:
                raise
            return None

    def first(self, functions: tuple[str, ...], *arguments: Any) -> Any:
        """The first answer; newer drivers have other names for the same."""
        answers = (self.ask(function, *arguments) for function in functions)
        return next((answer for answer in answers if answer is not None), None)
