"""Runs inside a container as its init process: starts the command and relays all its communication.

Some runtimes let nothing but the three standard streams through. So everything crosses in frames
over stdin and stdout of this process: the command's output, messages from and to its companion
outside, its exit status. It waits until it receives the command; variables come the same way, so
that the engine never sees or stores them. It counts the command's processes where that cannot be
done from outside, and reaps orphans. When the command has ended, it kills all other processes,
reports the status, and stays until stdin is closed, so that the kernel's counters can be read from
outside. When the provider dies, stdin is closed too, and everything ends.

It runs as the task's user and is trusted no more than the task. It imports only the standard
library, and `exec_env` and `container_proxy`, which are mounted next to it.
"""

import os
import select
import signal
import socket
import struct
import sys
from collections import deque

TYPE_CHECKING = False  # importing typing would take longer than all of this
if TYPE_CHECKING:
    from potluck.provider.sandbox.docker.container_proxy import ContainerProxy

HEADER = struct.Struct(">cI")  # kind, payload size
# From outside.
VARIABLES, CROWD, COMMAND, MESSAGE, SILENCE, TERMINATE = b"v", b"p", b"c", b"m", b"s", b"t"
LISTEN = b"l"  # on a port, for the proxy; `container_proxy` has the frames of its connections
# From inside, besides CROWD, MESSAGE and SILENCE.
READY, STDOUT, STDERR, EXIT = b"r", b"1", b"2", b"x"
# The first word of COMMAND: the type of its stdin, or the path of a file.
NOTHING, STREAM, PACKETS = b"nothing", b"stream", b"packets"

_SOCKETS = {STREAM: socket.SOCK_STREAM, PACKETS: socket.SOCK_SEQPACKET}
_PIECE_BYTES = 65_536
_MOST_WAITING_BYTES = 1_048_576
_MOST_FRAME_BYTES = 16 * _MOST_WAITING_BYTES  # commands and variables are not split
_COUNT_MILLISECONDS = 50
_MOST_PIECES = 1 + _MOST_WAITING_BYTES // _PIECE_BYTES  # in the largest pipe
# Above our own, so that the kernel kills the command before this process; it cannot be lowered.
_OUT_OF_MEMORY_SCORE = b"900"


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(payload)) + payload


class FrameDecoder:
    """Reassembles frames from pieces of any size.

    The command could forge frames; impossible ones raise ValueError.
    """

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> "list[tuple[bytes, bytes]]":
        self._waiting += data
        complete = []
        while len(self._waiting) >= HEADER.size:
            kind, size = HEADER.unpack_from(self._waiting)
            if size > _MOST_FRAME_BYTES:
                raise ValueError(size)
            end = HEADER.size + size
            if len(self._waiting) < end:
                break
            complete.append((kind, bytes(self._waiting[HEADER.size : end])))
            del self._waiting[:end]
        return complete


class ContainerInit:
    """One loop over all streams; only killing the command's processes may block."""

    def __init__(self) -> None:
        self._frames = FrameDecoder()
        self._out = bytearray()
        self._variables: dict[bytes, bytes] = {}
        self._streams: dict[int, bytes] = {}  # the command's pipes that are open
        self._channel: socket.socket | None = None
        self._to_channel: deque[bytes] = deque()
        self._is_silent = False  # the companion has closed: shut the channel once all is sent
        self._proxy: ContainerProxy | None = None
        self._command = 0
        self._most_processes = 0  # 0: not counted
        self._wakeup, wakeup_writer = os.pipe()
        for descriptor in (0, 1, self._wakeup, wakeup_writer):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._queue(READY)

    def run(self) -> None:
        """Returns when stdin is closed."""
        while True:
            self._check_process_count()
            for descriptor, event in self._poll():
                if descriptor == 0:
                    if not self._read_stdin():
                        return
                elif descriptor == 1:
                    self._write()
                elif descriptor in self._streams:
                    self._read(descriptor)
                elif descriptor == self._wakeup:
                    self._reap()
                elif self._channel is not None and descriptor == self._channel.fileno():
                    self._exchange(event)
                elif self._proxy is not None:
                    self._proxy.handle(descriptor, event)

    def _poll(self) -> "list[tuple[int, int]]":
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        is_full = len(self._out) >= _MOST_WAITING_BYTES
        if sum(map(len, self._to_channel)) < _MOST_WAITING_BYTES:
            poll.register(0, select.POLLIN)
        if self._out:
            poll.register(1, select.POLLOUT)
        for descriptor in () if is_full else tuple(self._streams):
            poll.register(descriptor, select.POLLIN)
        if self._channel is not None:
            events = 0 if is_full else select.POLLIN
            poll.register(self._channel, events | (select.POLLOUT if self._to_channel else 0))
        if self._proxy is not None:
            self._proxy.register(poll, is_full)
        return poll.poll(_COUNT_MILLISECONDS if self._most_processes else None)

    def _check_process_count(self) -> None:
        if self._most_processes and _count_threads() > self._most_processes:
            self._most_processes = 0
            self._queue(CROWD)

    def _queue(self, kind: bytes, payload: bytes = b"") -> None:
        self._out += frame(kind, payload)

    def _write(self) -> None:
        try:
            del self._out[: os.write(1, self._out[:_PIECE_BYTES])]
        except BlockingIOError:
            return

    def _read_stdin(self) -> bool:
        try:
            data = os.read(0, _PIECE_BYTES)
        except BlockingIOError:
            return True
        for kind, payload in self._frames.feed(data):
            self._handle(kind, payload)
        return bool(data)

    def _handle(self, kind: bytes, payload: bytes) -> None:
        if kind == VARIABLES:
            pairs = (entry.partition(b"=") for entry in payload.split(b"\0") if entry)
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
            self._shut_channel()
        elif kind == TERMINATE:
            _signal_all(signal.SIGTERM)
        elif kind == LISTEN:
            self._listen(int(payload))
        elif self._proxy is not None:
            self._proxy.receive(kind, payload)

    def _listen(self, port: int) -> None:
        import container_proxy  # type: ignore[import-not-found]  # mounted next to this file

        self._proxy = container_proxy.ContainerProxy(port, self._queue)

    def _start(self, stdin: bytes, words: "list[str]") -> None:
        stdout, stdout_theirs = os.pipe()
        stderr, stderr_theirs = os.pipe()
        theirs = None
        if stdin in _SOCKETS:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, _SOCKETS[stdin])
            self._channel.setblocking(False)
        self._command = os.fork()
        if self._command == 0:
            file = os.devnull if stdin == NOTHING else os.fsdecode(stdin)
            os.dup2(os.open(file, os.O_RDONLY) if theirs is None else theirs.fileno(), 0)
            os.dup2(stdout_theirs, 1)
            os.dup2(stderr_theirs, 2)
            os._exit(_execute(words, self._variables))
        for descriptor in (stdout_theirs, stderr_theirs):
            os.close(descriptor)
        if theirs is not None:
            theirs.close()
        for descriptor, kind in ((stdout, STDOUT), (stderr, STDERR)):
            os.set_blocking(descriptor, False)
            self._streams[descriptor] = kind

    def _read(self, descriptor: int) -> bool:
        """Returns whether there may be more data."""
        try:
            data = os.read(descriptor, _PIECE_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._queue(self._streams[descriptor], data)
            return True
        os.close(descriptor)
        del self._streams[descriptor]
        return False

    def _read_all(self) -> None:
        """Reads all output so far; bounded, since the command may write endlessly."""
        for descriptor in tuple(self._streams):
            for _ in range(_MOST_PIECES):
                if not self._read(descriptor):
                    break

    def _exchange(self, event: int) -> None:
        assert self._channel is not None
        if event & select.POLLOUT and self._to_channel:
            self._write_channel(self._channel)
        if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self._read_channel(self._channel)

    def _write_channel(self, channel: socket.socket) -> None:
        try:
            sent = channel.send(self._to_channel[0])
        except BlockingIOError:
            return
        except OSError:  # the command has closed its end
            self._to_channel.clear()
            return
        rest = self._to_channel.popleft()[sent:]
        if rest:
            self._to_channel.appendleft(rest)
        self._shut_channel()

    def _shut_channel(self) -> None:
        if self._is_silent and not self._to_channel and self._channel is not None:
            self._channel.shutdown(socket.SHUT_WR)

    def _read_channel(self, channel: socket.socket) -> None:
        try:
            data = channel.recv(_MOST_WAITING_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        # Output that the command wrote before this message must arrive before it.
        self._read_all()
        if data:
            self._queue(MESSAGE, data)
            return
        self._queue(SILENCE)
        channel.close()
        self._channel = None

    def _reap(self) -> None:
        os.read(self._wakeup, _PIECE_BYTES)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._command:
                self._report_exit(status)
                return

    def _report_exit(self, status: int) -> None:
        _kill_others()
        self._read_all()
        self._queue(EXIT, b"%d" % status)


def _count_threads() -> int:
    """Counts threads, as the kernel's limit does, of all visible processes."""
    count = 0
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
            except OSError:
                continue
    return count


def _kill_others() -> None:
    """Kills and reaps all other processes: once none is left, this one has no children."""
    while True:
        _signal_all(signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _signal_all(number: int) -> None:
    """Signals all processes but this one, which the kernel spares as init and as the caller."""
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        return


def _execute(words: "list[str]", variables: "dict[bytes, bytes]") -> int:
    import exec_env  # type: ignore[import-not-found]  # mounted next to this file

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
        sys.exit("It kills every visible process, so it runs only as init of a container.")
    # -I leaves out the script's own directory, which contains no files of the task.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    ContainerInit().run()
