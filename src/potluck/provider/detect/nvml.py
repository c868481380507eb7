"""NVIDIA's library NVML: every call returns a value or raises NvmlError."""

from collections.abc import Callable
from typing import Any

from potluck.provider.detect.report import RouteAnswer, RouteOutcome

NOT_FOUND = 6
MAY_NOT = 4
_NOT_LOADED = 9
_NO_LIBRARY = 12
_TOO_OLD = 13
_MISMATCH = 18
# Driver not loaded, GPU lost, reset required, GPU not found.
_IS_LOST = {_NOT_LOADED, 15, 16, 28}
_UNREADABLE = 999

_HINTS = {
    MAY_NOT: "Give this user access to /dev/nvidia*, for example by the group video or render.",
    _NOT_LOADED: "Load it (modprobe nvidia), or restart the machine if it was just installed.",
    _NO_LIBRARY: "If this machine has an NVIDIA card, install its driver.",
    _TOO_OLD: "Install a newer driver.",
    _MISMATCH: "The driver was updated while it was in use: restart the machine.",
}


class NvmlError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def is_lost(self) -> bool:
        """Whether the device or its driver is gone."""
        return self.code in _IS_LOST

    def as_answer(self) -> RouteAnswer:
        outcome = RouteOutcome.MISSING if self.code == _NO_LIBRARY else RouteOutcome.FAILED
        hint = _HINTS.get(self.code, "Check the output of nvidia-smi, which uses the same library.")
        return RouteAnswer(outcome, detail=f"NVML reports: {self}.", hint=hint)


class Library:
    """NVML's Python bindings. Drivers differ in the functions that they support."""

    def __init__(self) -> None:
        import pynvml

        self.nvml: Any = pynvml

    def must(self, function: str, *arguments: Any) -> Any:
        """The result, or NvmlError."""
        try:
            call: Callable[..., Any] = getattr(self.nvml, function)
            return call(*arguments)
        except self.nvml.NVMLError as error:
            raise NvmlError(error.value, str(error)) from error
        except (ValueError, ArithmeticError, MemoryError) as error:
            # Invalid text, or a count that is too large for an array.
            raise NvmlError(_UNREADABLE, f"unreadable ({type(error).__name__})") from error

    def ask(self, function: str, *arguments: Any) -> Any:
        """The result; None if it is not supported or permitted. NvmlError for a lost card."""
        try:
            return self.must(function, *arguments)
        except NvmlError as trouble:
            if trouble.is_lost:
                raise
            return None

    def first(self, functions: tuple[str, ...], *arguments: Any) -> Any:
        """The first result: functions have different names in newer drivers."""
        answers = (self.ask(function, *arguments) for function in functions)
        return next((answer for answer in answers if answer is not None), None)
