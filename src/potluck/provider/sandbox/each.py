"""Runs inside the sandbox: the items of an array in turn, each in a process of its own.

    each.py SCOPE SCRIPT [ARGUMENT …]

Started once for many items: what a sandbox and an interpreter take to start is paid once, and an
item costs a fork. Through the socket that is its stdin it is told which item to run and answers how
that ended, with the exit status or the signal as a negative number. Between items it ends what the
last one left running and puts the work directory back as it was. Whoever tells it to go on watches
the clock and the walls, and ends all of it if need be: nothing here is trusted with more than the
task itself. Asked to end (SIGTERM), the item alone hears it; whoever tells it to go on asks for no
more. SCOPE says whether all processes in sight are the sandbox's own, and may be ended.
"""

import os
import signal
import sys
import time

ENCLOSED = "enclosed"
_WAIT_SECONDS, _MOST_WAITS = 0.001, 1000
_SHARED_MEMORY = "/dev/shm"  # noqa: S108


def run_items(scope: str, script: str, *arguments: str) -> int:
    # Pending until the item lets it through: none is lost between its fork and its first line.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    channel = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    work = _Directory(".")
    while told := os.read(channel, 64):
        # Not before: who told us looks first how much the last item has filled.
        work.restore()
        if scope == ENCLOSED:
            _clear(_SHARED_MEMORY)
        pid = os.fork()
        if pid == 0:
            os.close(channel)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            _become(int(told), script, arguments)
            return 0
        _, status = os.waitpid(pid, 0)
        if scope == ENCLOSED:
            _end_the_rest()
        os.write(channel, b"%d" % os.waitstatus_to_exitcode(status))
    return 0


def _become(item: int, script: str, arguments: tuple[str, ...]) -> None:
    """The script, as if it had been started by its name."""
    os.environ["POTLUCK_ITEM"] = str(item)
    sys.argv = [script, *arguments]
    sys.path[:1] = [os.path.dirname(os.path.abspath(script))]  # noqa: PTH100, PTH120
    main = type(sys)("__main__")
    vars(main).update(__file__=script, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    try:
        with open(script, "rb") as file:  # noqa: PTH123
            code = compile(file.read(), script, "exec", dont_inherit=True)
        exec(code, vars(main))  # noqa: S102
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001, as the interpreter does
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next  # what is ours is of no use to the script's author
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None


def _end_the_rest() -> None:
    """Everything but this process and the first one, which the kernel spares."""
    ours = {"1", str(os.getpid())}
    for _ in range(_MOST_WAITS):
        if not [name for name in os.listdir("/proc") if name.isdigit() and name not in ours]:  # noqa: PTH208
            return
        try:
            os.kill(-1, 9)
        except ProcessLookupError:
            return
        time.sleep(_WAIT_SECONDS)


class _Directory:
    """A directory with files, to be put back as it was."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._marks = _marks(path)
        self._files = {name: _read(name) for name in self._marks if os.path.isfile(name)}  # noqa: PTH113

    def restore(self) -> None:
        if _marks(self._path) == self._marks:
            return
        _clear(self._path)
        for name in self._marks:
            if name in self._files:
                _write(name, self._files[name])
            else:
                os.mkdir(name)  # noqa: PTH102
        self._marks = _marks(self._path)


def _marks(path: str) -> dict[str, tuple[int, int, int]]:
    with os.scandir(path) as entries:
        stats = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
    return {name: (it.st_ino, it.st_size, it.st_mtime_ns) for name, it in stats.items()}


def _clear(path: str) -> None:
    with os.scandir(path) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                _open_up(entry.path)
                _clear(entry.path)
                os.rmdir(entry.path)  # noqa: PTH106
            else:
                os.unlink(entry.path)  # noqa: PTH108


def _open_up(path: str) -> None:
    """Caches of modules are read-only. What is not ours never was."""
    try:
        os.chmod(path, 0o700)  # noqa: PTH101
    except PermissionError:
        return


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(content)


if __name__ == "__main__":
    sys.exit(run_items(*sys.argv[1:]))
