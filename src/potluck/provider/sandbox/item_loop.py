"""Runs inside the sandbox: executes array items one after the other, each in its own process.

    item_loop.py SCOPE MANNER SCRIPT [ARGUMENT …]

Sandbox and interpreter start once for many items, so an item costs one fork. The provider sends
each item, with its own variables and arguments if it has any, over the socket that is stdin. The
answer is the exit status, or the signal as a negative number. Between items the loop kills leftover
processes and restores the work directory; if it cannot, it answers SPOILT instead of running the
item. The provider enforces time and resource limits: this program is trusted no more than the task.
Only the item receives SIGTERM; the provider then sends no further items. SCOPE says whether all
visible processes belong to the sandbox and may be killed; MANNER says whether an item is a Python
script or any program.
"""

import os
import signal
import sys
import time

ENCLOSED = "enclosed"
SCRIPT, PROGRAM = "script", "program"
UNRESTORABLE = b"spoilt"
_REQUEST_BYTES = 2**18
_KEPT_BYTES = 4 * 2**20
_WAIT_SECONDS, _MOST_WAITS = 0.001, 1000
_SHARED_MEMORY = "/dev/shm"  # noqa: S108


def run_items(scope: str, manner: str, script: str, *arguments: str) -> int:
    # Blocked until the item unblocks it, so that no signal is lost between fork and unblocking.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    channel = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    work = _Directory(".")
    while request := os.read(channel, _REQUEST_BYTES):
        # Not earlier: the provider first measures how much disk the last item has filled.
        if not _is_fresh(work, scope):
            os.write(channel, UNRESTORABLE)
            continue
        pid = os.fork()
        if pid == 0:
            os.close(channel)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            words = _item_command(request, manner, script, arguments)
            if manner == PROGRAM:
                return _execute(*words)
            _run_script(*words)
            return 0
        _, status = os.waitpid(pid, 0)
        if scope == ENCLOSED:
            _kill_others()
        os.write(channel, b"%d" % os.waitstatus_to_exitcode(status))
    return 0


def _item_command(
    request: bytes, manner: str, script: str, arguments: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """Sets the item's variables; returns its program or script, and the arguments."""
    if request.isdigit():
        os.environ["POTLUCK_ITEM"] = str(int(request))
        return script, arguments
    import json

    item = json.loads(request)
    os.environ.update(item["environment"], POTLUCK_ITEM=str(item["item"]))
    own = item["arguments"]
    if own is None or (manner == PROGRAM and not own):
        return script, arguments
    return (own[0], tuple(own[1:])) if manner == PROGRAM else (script, tuple(own))


def _is_fresh(work: "_Directory", scope: str) -> bool:
    """Restores the initial state; False if leftovers are too deeply nested or inaccessible."""
    try:
        if scope == ENCLOSED:
            _clear(_SHARED_MEMORY)
        return work.restore()
    except (OSError, RecursionError):
        return False


def _execute(program: str, arguments: tuple[str, ...]) -> int:
    """Executes the program; returns a shell's exit status if that fails."""
    try:
        os.execvp(program, [program, *arguments])  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"potluck: {program} cannot be started: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


def _run_script(script: str, arguments: tuple[str, ...]) -> None:
    """Runs the script as if the interpreter had been started with it."""
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
            trace = trace.tb_next  # our own frames do not help the script's author
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None


def _kill_others() -> None:
    """Kills all processes but this one and init, which the kernel spares."""
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
    """A snapshot of a directory tree that can be restored.

    New files are removed; changed files are rewritten if they were small enough to keep in memory.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._marks = _marks(path)
        self._files = {}
        room = _KEPT_BYTES
        for name, (_, size, _) in self._marks.items():
            if size is not None and size <= room and _is_regular_file(name):
                self._files[name] = _read(name)
                room -= size

    def restore(self) -> bool:
        """Returns False if the original state cannot be restored."""
        now = _marks(self._path)
        if now == self._marks:
            return True
        for name in sorted(now, reverse=True):  # content before its directory
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
    """A mark for each path below, which differs if the file changed. That of a directory depends
    on its inode only: its content has marks of its own."""
    marks: dict[str, tuple[int, int | None, int]] = {}
    with os.scandir(path) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                _make_writable(entry.path)
                marks[entry.path] = (status.st_ino, None, 0)
                marks |= _marks(entry.path)
            else:
                marks[entry.path] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return marks


def _is_regular_file(path: str) -> bool:
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
                _make_writable(entry.path)
                _clear(entry.path)
                os.rmdir(entry.path)  # noqa: PTH106
            else:
                os.unlink(entry.path)  # noqa: PTH108


def _make_writable(path: str) -> None:
    """Makes the directory writable: module caches are read-only. Ignores directories of others."""
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
