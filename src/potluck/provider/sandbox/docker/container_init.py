"""Runs inside a container as its first process: starts the command, and is its only way out.

A container has three streams and no more, and some runtimes let nothing else through. So all that
crosses goes in frames over stdin and stdout of this process: what the command writes, what its
companion outside says to it and hears from it, how it ended. It waits at the gate until it is told
the command, and variables travel the same way, so that the engine never knows them and writes them
nowhere. Where nobody outside can count the command's processes, it does. It takes in orphans as the
first process must. When the command has ended it ends all others, tells the status, and stays until
its stdin is closed, so that outside the kernel's counts can be read; when the provider dies, stdin
is closed too, and everything ends.

It is the task's own user and is trusted with no more than the task itself. It imports only what
any Python has, and its neighbour `begin`.
"""

import os
import select
import signal
import socket
import struct
import sys
from collections import deque

HEADER = struct.Struct(">cI")  # a kind, and how many bytes follow
# From outside.
VARIABLES, CROWD, COMMAND, MESSAGE, SILENCE, TERMINATE = b"v", b"p", b"c", b"m", b"s", b"t"
# From inside, besides CROWD, MESSAGE and SILENCE.
READY, STDOUT, STDERR, EXIT = b"r", b"1", b"2", b"x"
# The first word of COMMAND: what its stdin is.
NOTHING, STREAM, PACKETS = b"nothing", b"stream", b"packets"

_SOCKETS = {STREAM: socket.SOCK_STREAM, PACKETS: socket.SOCK_SEQPACKET}
_PIECE_BYTES = 65_536
_MOST_WAITING_BYTES = 1_048_576
_MOST_FRAME_BYTES = 16 * _MOST_WAITING_BYTES  # commands and variables are whole, all else is less
_COUNT_MILLISECONDS = 50
_MOST_PIECES = 1 + _MOST_WAITING_BYTES // _PIECE_BYTES  # of the largest pipe
# A process may make itself a likelier victim, never a less likely one: the command goes first.
_OUT_OF_MEMORY_SCORE = b"900"


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(payload)) + payload


class FrameDecoder:
    """Puts frames together again from pieces of any size.

    The command could write some too: what no frame of ours can be is a ValueError.
    """

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> "list[tuple[bytes, bytes]]":
        self._waiting += data
        whole = []
        while len(self._waiting) >= HEADER.size:
            kind, size = HEADER.unpack_from(self._waiting)
            if size > _MOST_FRAME_BYTES:
                raise ValueError(size)
            end = HEADER.size + size
            if len(self._waiting) < end:
                break
            whole.append((kind, bytes(self._waiting[HEADER.size : end])))
            del self._waiting[:end]
        return whole


class ContainerInit:
    """One loop over all streams; nothing in it blocks but the end of the command's processes."""

    def __init__(self) -> None:
        self._frames = FrameDecoder()
        self._out = bytearray()
        self._variables: dict[bytes, bytes] = {}
        self._streams: dict[int, bytes] = {}  # the command's pipes that are open
        self._channel: socket.socket | None = None
        self._to_channel: deque[bytes] = deque()
        self._is_silent = False  # once all is said, the channel hears an end
        self._command = 0
        self._most_processes = 0  # none: they are not counted
        self._noticed, noticing = os.pipe()
        for descriptor in (0, 1, self._noticed, noticing):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(noticing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._say(READY)

    def run(self) -> None:
        """Returns when stdin is closed."""
        while True:
            self._count()
            for descriptor, event in self._poll():
                if descriptor == 0:
                    if not self._hear():
                        return
                elif descriptor == 1:
                    self._write()
                elif descriptor in self._streams:
                    self._read(descriptor)
                elif descriptor == self._noticed:
                    self._reap()
                elif self._channel is not None and descriptor == self._channel.fileno():
                    self._exchange(event)

    def _poll(self) -> "list[tuple[int, int]]":
        poll = select.poll()
        poll.register(self._noticed, select.POLLIN)
        is_full = len(self._out) >= _MOST_WAITING_BYTES
        if sum(map(len, self._to_channel)) < _MOST_WAITING_BYTES:
            poll.register(0, select.POLLIN)
        if self._out:
            poll.register(1, select.POLLOUT)
        for descriptor in () if is_full else tuple(self._streams):
            poll.register(descriptor, select.POLLIN)
        if self._channel is not None:
            wanted = 0 if is_full else select.POLLIN
            poll.register(self._channel, wanted | (select.POLLOUT if self._to_channel else 0))
        return poll.poll(_COUNT_MILLISECONDS if self._most_processes else None)

    def _count(self) -> None:
        if self._most_processes and _threads() > self._most_processes:
            self._most_processes = 0
            self._say(CROWD)

    def _say(self, kind: bytes, payload: bytes = b"") -> None:
        self._out += frame(kind, payload)

    def _write(self) -> None:
        try:
            del self._out[: os.write(1, self._out[:_PIECE_BYTES])]
        except BlockingIOError:
            return

    def _hear(self) -> bool:
        try:
            data = os.read(0, _PIECE_BYTES)
        except BlockingIOError:
            return True
        for kind, payload in self._frames.feed(data):
            self._obey(kind, payload)
        return bool(data)

    def _obey(self, kind: bytes, payload: bytes) -> None:
        if kind == VARIABLES:
            pairs = (each.partition(b"=") for each in payload.split(b"\0") if each)
            self._variables = {name: value for name, _, value in pairs}
        elif kind == CROWD:
            self._most_processes = int(payload)
        elif kind == COMMAND:
            stdin, *words = payload.split(b"\0")
            self._start(stdin, [os.fsdecode(word) for word in words])
        elif kind == MESSAGE:
            self._to_channel.append(payload)
        elif kind == SILENCE:
            self._is_silent = True
            self._fall_silent()
        elif kind == TERMINATE:
            _signal_all(signal.SIGTERM)

    def _start(self, stdin: bytes, words: "list[str]") -> None:
        stdout, stdout_theirs = os.pipe()
        stderr, stderr_theirs = os.pipe()
        theirs = None
        if stdin in _SOCKETS:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, _SOCKETS[stdin])
            self._channel.setblocking(False)
        self._command = os.fork()
        if self._command == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY) if theirs is None else theirs.fileno(), 0)
            os.dup2(stdout_theirs, 1)
            os.dup2(stderr_theirs, 2)
            os._exit(_become(words, self._variables))
        for descriptor in (stdout_theirs, stderr_theirs):
            os.close(descriptor)
        if theirs is not None:
            theirs.close()
        for descriptor, kind in ((stdout, STDOUT), (stderr, STDERR)):
            os.set_blocking(descriptor, False)
            self._streams[descriptor] = kind

    def _read(self, descriptor: int) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(descriptor, _PIECE_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._say(self._streams[descriptor], data)
            return True
        os.close(descriptor)
        del self._streams[descriptor]
        return False

    def _read_all(self) -> None:
        """All that was written until now; who writes on without end does not hold us here."""
        for descriptor in tuple(self._streams):
            for _ in range(_MOST_PIECES):
                if not self._read(descriptor):
                    break

    def _exchange(self, event: int) -> None:
        assert self._channel is not None
        if event & select.POLLOUT and self._to_channel:
            self._tell_channel(self._channel)
        if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self._hear_channel(self._channel)

    def _tell_channel(self, channel: socket.socket) -> None:
        try:
            sent = channel.send(self._to_channel[0])
        except BlockingIOError:
            return
        except OSError:  # nobody listens any more
            self._to_channel.clear()
            return
        rest = self._to_channel.popleft()[sent:]
        if rest:
            self._to_channel.appendleft(rest)
        self._fall_silent()

    def _fall_silent(self) -> None:
        if self._is_silent and not self._to_channel and self._channel is not None:
            self._channel.shutdown(socket.SHUT_WR)

    def _hear_channel(self, channel: socket.socket) -> None:
        try:
            data = channel.recv(_MOST_WAITING_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        # What the command wrote before it said this comes before it outside, too.
        self._read_all()
        if data:
            self._say(MESSAGE, data)
            return
        self._say(SILENCE)
        channel.close()
        self._channel = None

    def _reap(self) -> None:
        os.read(self._noticed, _PIECE_BYTES)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._command:
                self._conclude(status)
                return

    def _conclude(self, status: int) -> None:
        _end_the_rest()
        self._read_all()
        self._say(EXIT, b"%d" % status)


def _threads() -> int:
    """Of all processes in sight, which are the container's; threads count, as for the kernel."""
    count = 0
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
            except OSError:
                continue
    return count


def _end_the_rest() -> None:
    """Everything but this process; none is left when it has no child any more."""
    while True:
        _signal_all(signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _signal_all(number: int) -> None:
    """The kernel spares the first process and the caller, who are one here."""
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        return


def _become(words: "list[str]", variables: "dict[bytes, bytes]") -> int:
    import exec_env  # type: ignore[import-not-found]  # its neighbour, inside

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:  # noqa: PTH123
            file.write(_OUT_OF_MEMORY_SCORE)
    except OSError:
        pass
    program, *arguments = words
    status = int(exec_env.become(program, tuple(arguments), variables))
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    if os.getpid() != 1:
        sys.exit("It ends every process in sight, so it runs as the first one of a container.")
    # -I leaves out the script's own directory, and there is nothing of the task's in this one.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    ContainerInit().run()
