"""Exceptions of functions: text of a node, as a Potluck error that also has its builtin type.

`except ZeroDivisionError` catches what `except potluck.RemoteError` catches. A node names the type,
so it is one of this closed list, and its constructor is not called with what the node says:
`StopIteration` would end a loop, `KeyboardInterrupt` the program, and a syntax error or a group
shows other fields than its text. All others are plain `RemoteError`.
"""

import re
from typing import Final

from potluck.local.failure_hints import find_hint
from potluck.model.error import RemoteError
from potluck.model.task import EndReason

BUILTIN_TYPES: Final[tuple[type[Exception], ...]] = (
    *(ArithmeticError, FloatingPointError, OverflowError, ZeroDivisionError),
    *(AssertionError, AttributeError, BufferError, EOFError, ImportError, ModuleNotFoundError),
    *(LookupError, IndexError, KeyError, MemoryError, NameError, UnboundLocalError),
    *(OSError, BlockingIOError, ChildProcessError, ConnectionError, BrokenPipeError),
    *(ConnectionAbortedError, ConnectionRefusedError, ConnectionResetError, FileExistsError),
    *(FileNotFoundError, InterruptedError, IsADirectoryError, NotADirectoryError),
    *(PermissionError, ProcessLookupError, TimeoutError, ReferenceError),
    *(RuntimeError, NotImplementedError, RecursionError, SystemError, TypeError),
    *(ValueError, UnicodeError, UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError),
)
_ERRNO = re.compile(r"\[Errno ([0-9]{1,4})\]")


def remote_error(
    type_name: str, message: str = "", traceback: str = "", stderr: str = ""
) -> RemoteError:
    """The error for these texts, which need not be printable."""
    error = _CLASSES.get(type_name, RemoteError)(type_name, message, traceback, stderr)
    error.hint = find_hint(EndReason.EXCEPTION, error.detail, is_python=True)
    if error.hint:
        error.add_note(error.hint)
    return error


class _BuiltinRemoteError(RemoteError):
    """The constructor of a builtin type is never called with texts of a node."""

    def __init__(self, type_name: str, message: str = "", traceback: str = "", stderr: str = ""):
        super().__init__(type_name, message, traceback, stderr)
        raised: object = self
        if isinstance(raised, OSError) and (match := _ERRNO.match(message)):
            raised.errno = int(match[1])
        elif isinstance(raised, UnicodeDecodeError):
            UnicodeDecodeError.__init__(raised, "", b"", 0, 0, message)
        elif isinstance(raised, UnicodeEncodeError):
            UnicodeEncodeError.__init__(raised, "", "", 0, 0, message)
        elif isinstance(raised, UnicodeTranslateError):
            UnicodeTranslateError.__init__(raised, "", 0, 0, message)
        self.args = (self.detail,)

    def __reduce__(self) -> tuple[object, tuple[str, str, str, str]]:
        return remote_error, (self.type_name, self.message, self.traceback, self.stderr)


def _make_class(builtin: type[Exception]) -> type[_BuiltinRemoteError]:
    name = f"Remote{builtin.__name__}"
    return type(name, (_BuiltinRemoteError, builtin), {"__module__": "potluck"})


_CLASSES = {builtin.__name__: _make_class(builtin) for builtin in BUILTIN_TYPES}
