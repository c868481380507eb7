"""Completion for the shell that somebody names, and not for the one that runs the command.

Left to itself typer looks which shell that is, passes over the name, and knows nothing to do where
a program started us and no shell did.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_OPTIONS = ("--install-completion", "--show-completion")
# Typer's own switch: the options then take a name.
_BY_NAME = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"


@contextmanager
def named_shell(arguments: Sequence[str]) -> Iterator[None]:
    is_named = len(arguments) > 1 and arguments[0] in _OPTIONS
    if not is_named or _BY_NAME in os.environ:
        yield
        return
    os.environ[_BY_NAME] = "1"
    try:
        yield
    finally:
        del os.environ[_BY_NAME]
