"""Runs inside the sandbox: the items of an array in turn, each in a process of its own.

    each.py SCOPE MANNER SCRIPT [ARGUMENT …]

Started once for many items: what a sandbox and an interpreter take to start is paid once, and an
item costs a fork. Through the socket that is its stdin it is told which item to run, and with which
variables and arguments if it has some of its own, and answers how that ended, with the exit status
or the signal as a negative number. Between items it ends what the last one left running and puts
the work directory back as it was; where it can not, it says so instead of running an item. Whoever
tells it to go on watches the clock and the walls, and ends all of it if need be: nothing here is
trusted with more than the task itself. Asked to end (SIGTERM), the item alone hears it; whoever
tells it to go on asks for no more. SCOPE says whether all processes in sight are the sandbox's own,
and may be ended; MANNER, whether an item is a Python script or any program.
"""

import os
import signal
import sys
import time

ENCLOSED = "enclosed"
SCRIPT, PROGRAM = "script", "program"
SPOILT = b"spoilt"
_TOLD_BYTES = 2**18
_KEPT_BYTES = 4 * 2**20
_WAIT_SECONDS, _MOST_WAITS = 0.001, 1000
_SHARED_MEMORY = "/dev/shm"  # noqa: S108


def run_items(scope: str, manner: str, script: str, *arguments: str) -> int:
    # Pending until the item lets it through: none is lost between its fork and its first line.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    channel = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    work = _Directory(".")
    while told := os.read(channel, _TOLD_BYTES):
        # Not before: who told us looks first how much the last item has filled.
        if not _is_fresh(work, scope):
            os.write(channel, SPOILT)
            continue
        pid = os.fork()
        if pid == 0:
            os.close(channel)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            words = _given(told, manner, script, arguments)
            if manner == PROGRAM:
                return _execute(*words)
            _become(*words)
            return 0
        _, status = os.waitpid(pid, 0)
        if scope == ENCLOSED:
            _end_the_rest()
        os.write(channel, b"%d" % os.waitstatus_to_exitcode(status))
    return 0


def _given(
    told: bytes, manner: str, script: str, arguments: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """What is to be run, with the item's own variables in place."""
    if told.isdigit():
        os.environ["POTLUCK_ITEM"] = str(int(told))
        return script, arguments
    import json

    said = json.loads(told)
    os.environ.update(said["environment"], POTLUCK_ITEM=str(said["item"]))
    own = said["arguments"]
    if own is None or (manner == PROGRAM and not own):
        return script, arguments
    return (own[0], tuple(own[1:])) if manner == PROGRAM else (script, tuple(own))


def _is_fresh(work: "_Directory", scope: str) -> bool:
    """What the last item left may be too deep for us, or shut."""
    try:
        if scope == ENCLOSED:
            _clear(_SHARED_MEMORY)
        return work.restore()
    except (OSError, RecursionError):
        return False


def _execute(program: str, arguments: tuple[str, ...]) -> int:
    """The program, or what a shell would answer."""
    try:
        os.execvp(program, [program, *arguments])  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"potluck: {program} can not be started: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


def _become(script: str, arguments: tuple[str, ...]) -> None:
    """The script, as if it had been started by its name."""
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
    """A directory and all that is in it, to be put back as it was.

    What is new is removed. What was changed is written anew, as far as it was small enough to be
    kept in memory.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._marks = _marks(path)
        self._files = {}
        room = _KEPT_BYTES
        for name, (_, size, _) in self._marks.items():
            if size is not None and size <= room and _is_plain(name):
                self._files[name] = _read(name)
                room -= size

    def restore(self) -> bool:
        """False when it can not be as it was."""
        now = _marks(self._path)
        if now == self._marks:
            return True
        for name in sorted(now, reverse=True):  # what is inside of it first
            if now[name] != self._marks.get(name):
                _remove(name)
        for name, (_, size, _) in sorted(self._marks.items()):
            if os.path.lexists(name):
                continue
            if size is None:
                os.mkdir(name)  # noqa: PTH102
            elif name in self._files:
                _write(name, self._files[name])
            else:
                return False
        self._marks = _marks(self._path)
        return True


def _marks(path: str) -> dict[str, tuple[int, int | None, int]]:
    """Of all that is below: another one when it has changed. A directory is one as long as it is
    there: what is in it has marks of its own."""
    marks: dict[str, tuple[int, int | None, int]] = {}
    with os.scandir(path) as entries:
        for entry in entries:
            it = entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                _open_up(entry.path)
                marks[entry.path] = (it.st_ino, None, 0)
                marks |= _marks(entry.path)
            else:
                marks[entry.path] = (it.st_ino, it.st_size, it.st_mtime_ns)
    return marks


def _is_plain(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)  # noqa: PTH113, PTH114


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
        _clear(path)
        os.rmdir(path)  # noqa: PTH106
    else:
        os.unlink(path)  # noqa: PTH108


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
