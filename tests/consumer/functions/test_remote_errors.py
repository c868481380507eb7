"""Exceptions of a node: also of their builtin type, from a closed list, and only text."""

import builtins
import pickle
import traceback

import pytest

from potluck.consumer.functions.remote_errors import BUILTIN_TYPES, remote_error
from potluck.model.error import RemoteError

NEVER = ("StopIteration", "StopAsyncIteration", "KeyboardInterrupt", "SystemExit", "GeneratorExit")


@pytest.mark.parametrize("builtin", BUILTIN_TYPES)
def test_a_remote_error_has_its_builtin_type_and_the_remote_traceback(
    builtin: type[Exception],
) -> None:
    name = builtin.__name__
    error = remote_error(name, "[Errno 13] not \x00 this", "  in there")
    assert isinstance(error, builtin) and isinstance(error, RemoteError)
    copied_error = pickle.loads(pickle.dumps(error))
    assert type(copied_error) is type(error)
    for remote_failure in (error, copied_error):
        assert str(remote_failure) == remote_failure.detail == f"{name}: [Errno 13] not \x00 this"
        assert (remote_failure.args, remote_failure.type_name) == ((remote_failure.detail,), name)
        text = "".join(traceback.format_exception(remote_failure))
        assert remote_failure.detail in text and "  in there" in text
        assert "Errno 13" in repr(remote_failure)


def test_an_error_of_the_system_has_its_number() -> None:
    error = remote_error("FileNotFoundError", "[Errno 2] No such file or directory: 'x'")
    assert isinstance(error, FileNotFoundError) and error.errno == 2
    without = remote_error("OSError", "no number")
    assert isinstance(without, OSError) and without.errno is None


@pytest.mark.parametrize("name", [*NEVER, "BaseException", "ExceptionGroup", "Exception", "My", ""])
def test_others_are_only_remote_errors(name: str) -> None:
    assert type(remote_error(name, "text")) is RemoteError


def test_the_list_is_of_exceptions_that_end_no_loop() -> None:
    forbidden = tuple(getattr(builtins, name) for name in NEVER)
    assert all(issubclass(kind, Exception) for kind in BUILTIN_TYPES)
    assert not any(issubclass(kind, forbidden) for kind in BUILTIN_TYPES)


def test_a_known_cause_is_in_the_hint_and_below_the_traceback() -> None:
    error = remote_error("ModuleNotFoundError", "No module named 'numpy'")
    assert 'dependencies=["numpy"]' in error.hint
    assert error.hint in error.__notes__
