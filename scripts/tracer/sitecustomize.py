"""Records which functions of the package run and which value classes are instantiated.

Python imports this module at the start of every process that has its folder in PYTHONPATH. The
folder that RUN_TRACE names holds `phase`, one byte that all processes map: `0` is not recorded, any
other digit is written down with each record. Each process appends to a file `ROLE.PID` of its own
when a phase first sees a function or a class, so that nothing is lost however it ends. A line is
`PHASE KIND PLACE NAME`, with tabs between; PLACE is a function's file or a class's module.

Nothing that runs while a module is imported is recorded. A profile function does not see msgspec
make a struct, since that happens in C; it does see `__post_init__`, so all structs of a
traced process have one.
"""

import dataclasses
import inspect
import mmap
import os
import sys
import threading
from pathlib import Path
from types import FrameType

import msgspec

_PACKAGE = os.environ.get("RUN_TRACE_PACKAGE", "") + os.sep
# What follows `-m potluck` on the command line, and the process that it starts.
_ROLES = {"server": "server", "provide": "provider", "run": "client"}
_NOT_RECORDED = ord("0")


class _ObservableStruct(msgspec.Struct):
    def __post_init__(self) -> None:
        """Gives the profile function a call to see."""


class _Recorder:
    def __init__(self, folder: Path, role: str) -> None:
        with (folder / "phase").open("rb") as file:
            self._phase = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
        self._output = (folder / f"{role}.{os.getpid()}").open("a", buffering=1)
        self._recorded: set[tuple[int, str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        phase = self._phase[0]
        if event != "call" or phase == _NOT_RECORDED:
            return
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGE) and code.co_flags & inspect.CO_OPTIMIZED:
            self._record(phase, "function", code.co_filename, code.co_qualname, frame)
        made = _class_of_new_value(frame)
        if made is not None and made.__module__.startswith("potluck."):
            self._record(phase, "class", made.__module__, made.__qualname__, frame)

    def _record(self, phase: int, kind: str, place: str, name: str, frame: FrameType) -> None:
        key = (phase, place, name)
        if key not in self._recorded and not _is_import(frame):
            self._recorded.add(key)
            self._output.write(f"{phase:c}\t{kind}\t{place}\t{name}\n")


def _class_of_new_value(frame: FrameType) -> type | None:
    """The struct, dataclass or named tuple that this call makes an instance of."""
    code = frame.f_code
    if code.co_name in ("__post_init__", "__init__") and code.co_varnames:
        made = type(frame.f_locals[code.co_varnames[0]])
        is_value = issubclass(made, msgspec.Struct) or dataclasses.is_dataclass(made)
        return made if is_value else None
    if code.co_name == "<lambda>" and code.co_varnames[:1] == ("_cls",):  # typing.NamedTuple
        named_tuple = frame.f_locals["_cls"]
        assert isinstance(named_tuple, type)
        return named_tuple
    return None


def _is_import(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def _role(command: list[str]) -> str | None:
    if any(word.startswith("potluck.provider.") for word in command):
        return "provider"
    is_ours = "potluck" in command[:-1]
    return _ROLES.get(command[command.index("potluck") + 1]) if is_ours else None


def _install() -> None:
    folder, role = os.environ.get("RUN_TRACE"), _role(sys.orig_argv)
    if folder is None or role is None:
        return
    vars(msgspec)["Struct"] = _ObservableStruct
    recorder = _Recorder(Path(folder), role)
    threading.setprofile(recorder)
    sys.setprofile(recorder)


_install()
