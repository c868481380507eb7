"""Runs inside the sandbox before the command, as the command's user: sets its variables and
stdin.

    exec_env.py VARIABLES STDIN PROXY PROGRAM [ARGUMENT …]

STDIN is a file that the command reads as its stdin; if it is empty text, stdin stays as it is.
PROXY is empty, or DESCRIPTOR:PORT: a listener is opened on that port of loopback, and sent through
the descriptor to the provider, which serves it from outside.
VARIABLES is a file of NUL-terminated `name=value` entries. They are set here because a loader obeys
some of them and earlier steps may run as root; from a file because every user of the machine may
read a command line; and not by a shell, which gives some names a special meaning. Imports only what
the interpreter has loaded anyway, so it takes milliseconds; `-I -S` reads no file of the task.
"""

import _signal  # type: ignore[import-not-found]  # importing signal would dominate the run time
import errno
import os
import sys

# Exit statuses as of a shell.
_CANNOT_RUN, _NOT_FOUND = 126, 127


def read_variables(path: str) -> dict[bytes, bytes]:
    with open(path, "rb") as file:  # noqa: PTH123, importing pathlib would dominate the run time
        pairs = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    return {name: value for name, _, value in pairs}


def open_stdin(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.dup2(descriptor, 0)
    os.close(descriptor)


def open_proxy(descriptor: int, port: int) -> None:
    import _socket  # only for tasks with network

    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    outside = _socket.socket(fileno=descriptor)
    sent = listener.fileno().to_bytes(4, sys.byteorder)
    outside.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, sent)])
    outside.close()
    listener.close()


def run_command(variables: str, stdin: str, proxy: str, program: str, *arguments: str) -> int:
    if stdin:
        open_stdin(stdin)
    if proxy:
        descriptor, _, port = proxy.partition(":")
        open_proxy(int(descriptor), int(port))
    return become(program, arguments, read_variables(variables))


def become(program: str, arguments: "tuple[str, ...]", variables: "dict[bytes, bytes]") -> int:
    """Executes the program in this process; returns an exit status if that fails."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # ignored by Python, which exec inherits
        _signal.signal(number, _signal.SIG_DFL)
    try:
        os.execvpe(program, [program, *arguments], variables)  # noqa: S606
    except OSError as error:
        sentence = f"potluck: {program} cannot be started: {error.strerror}"
        if error.errno == errno.E2BIG:
            sentence += " (shorten the task's variables or arguments)"
        sys.stderr.write(f"{sentence}\n")
        return _NOT_FOUND if error.errno == errno.ENOENT else _CANNOT_RUN


if __name__ == "__main__":
    sys.exit(run_command(*sys.argv[1:]))
