"""Runs inside the sandbox before the command, as the command's user: sets its variables.

    exec_env.py VARIABLES PROGRAM [ARGUMENT …]

VARIABLES is a file of `name=value`, each ended by NUL. They are set here and not before, since a
loader obeys some of them and the steps before may be root; from a file, since every user of the
machine may read a command line; and not by a shell, which gives some names a meaning of its own.
It imports only what the interpreter has loaded anyway, so that it takes milliseconds, and `-I -S`
starts it with no file of the task read.
"""

import _signal  # type: ignore[import-not-found]  # signal itself takes longer than all else
import errno
import os
import sys

# What a shell would answer.
_CAN_NOT_RUN, _NOT_FOUND = 126, 127


def read_variables(path: str) -> dict[bytes, bytes]:
    with open(path, "rb") as file:  # noqa: PTH123, pathlib takes longer than all else here
        pairs = [each.partition(b"=") for each in file.read().split(b"\0") if each]
    return {name: value for name, _, value in pairs}


def run_command(variables: str, program: str, *arguments: str) -> int:
    return become(program, arguments, read_variables(variables))


def become(program: str, arguments: "tuple[str, ...]", variables: "dict[bytes, bytes]") -> int:
    """Becomes the program; returns an exit status where that is not possible."""
    for ignored in (_signal.SIGPIPE, _signal.SIGXFSZ):  # by this interpreter, and so by the program
        _signal.signal(ignored, _signal.SIG_DFL)
    try:
        os.execvpe(program, [program, *arguments], variables)  # noqa: S606
    except OSError as error:
        sentence = f"potluck: {program} can not be started: {error.strerror}"
        if error.errno == errno.E2BIG:
            sentence += " (make the variables or the arguments of the task smaller)"
        sys.stderr.write(f"{sentence}\n")
        return _NOT_FOUND if error.errno == errno.ENOENT else _CAN_NOT_RUN


if __name__ == "__main__":
    sys.exit(run_command(*sys.argv[1:]))
