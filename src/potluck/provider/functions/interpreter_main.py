"""Runs inside the sandbox: loads a function once and calls it for as long as it is told to.

    interpreter_main.py PLAIN_VALUES CLOUDPICKLE

Both are folders of packages. Through the socket that is its stdin it is told what to load and which
items to call it with, and answers what they returned, many at once: see channel.py for the frames.
What it prints is the log. Whoever tells it what to do watches the clock and the walls, and ends all
of it if need be: nothing here is trusted with more than the task itself.

Results leave when they have gathered for a while, also while an item takes long; with them goes
which item that is. Told to be careful, it says so before each item, and holds nothing back; it is
then told the next item only when the last answer has been taken.
"""

import importlib.util
import os
import pickle
import struct
import sys
import threading
import time
from types import ModuleType
from typing import Any, BinaryIO

HEADER = struct.Struct("<cQ")
JOB = struct.Struct("<Bd")
ITEMS = struct.Struct("<QI")
ANSWER = struct.Struct("<IdQ")
AT = struct.Struct("<Q")
CAREFUL, ARRAY, PICKLED, FRESH = 1, 2, 4, 8
# As large as what is sent along in a message; a value that is larger by itself goes alone.
MOST_GATHERED_BYTES = 262_144
MOST_VALUE_BYTES = 64 * 2**20
MOST_ERROR_BYTES = 60_000
COLLECTED = ".collected-"  # and a number


def serve(plain_folder: str, pickler_folder: str) -> int:
    descriptor = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    told = open(descriptor, "rb", buffering=2**18)  # noqa: PTH123, SIM115
    plain, pickler = _package("plain_values", plain_folder), _package("cloudpickle", pickler_folder)
    answers = _Answers(descriptor, plain)
    _be_nobody()
    function: Any = None
    job: _ItemsCall | None = None
    while frame := _read_frame(told):
        kind, data = frame
        if kind == b"L":
            function = _load(data, answers)
        elif kind == b"J":
            job = _ItemsCall(data, answers, plain, pickler)
        elif kind == b"D":
            _remove(COLLECTED + data.decode())
        elif kind == b"I" and job is not None:
            job.run(function, data)
    return 0


def _read_frame(told: BinaryIO) -> "tuple[bytes, bytes] | None":
    header = told.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    kind, size = HEADER.unpack(header)
    return kind, told.read(size)


def _package(name: str, folder: str) -> ModuleType:
    """From where it lies: what else lies there is none of the task's business."""
    place = os.path.join(folder, "__init__.py")  # noqa: PTH118
    spec = importlib.util.spec_from_file_location(name, place, submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _be_nobody() -> None:
    """The function finds a `__main__` of its own, and modules where it works, as a script would."""
    sys.modules["potluck_serve"] = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    sys.argv, sys.path[0] = [""], os.getcwd()  # noqa: PTH109


def _load(code: bytes, answers: "_Answers") -> Any:
    try:
        function = pickle.loads(code)  # noqa: S301
    except BaseException as error:  # noqa: BLE001, whatever it is, its owner is told
        answers.send(b"X", answers.described(error, is_loading=True))
        return None
    answers.send(b"R")
    return function


class _ItemsCall:
    """Items of one attempt."""

    def __init__(
        self, data: bytes, answers: "_Answers", plain: ModuleType, pickler: ModuleType
    ) -> None:
        flags, flush_seconds = JOB.unpack_from(data)
        for line in data[JOB.size :].split(b"\0"):
            name, _, value = line.partition(b"=")
            if name:
                os.environb[name] = value
        if flags & FRESH:
            _keep_brought()
            _make(_PLACES[0])
        else:
            _clear()
        self._answers = answers
        self._is_array = bool(flags & ARRAY)
        self._encode = pickler.dumps if flags & PICKLED else plain.encode
        answers.begin(bool(flags & CAREFUL), flush_seconds)

    def run(self, function: Any, data: bytes) -> None:
        start, count = ITEMS.unpack_from(data)
        offsets = struct.unpack_from(f"<{count + 1}Q", data, ITEMS.size)
        base = ITEMS.size + 8 * (count + 1) - offsets[0]
        view, answers = memoryview(data), self._answers
        os.chdir(_PLACE)
        answers.busy.set()
        try:
            for index in range(count):
                part = view[base + offsets[index] : base + offsets[index + 1]]
                self._call(function, start + index, part)
        finally:
            answers.busy.clear()
        answers.flush()

    def _call(self, function: Any, item: int, given: "memoryview[int]") -> None:
        answers = self._answers
        if self._is_array:
            os.environ["POTLUCK_ITEM"] = str(item)
        answers.at(item)
        began = time.perf_counter()
        try:
            arguments = pickle.loads(given)  # noqa: S301
            if type(arguments) is tuple:
                value = self._encode(function(*arguments))
            else:
                value = self._encode(function(*arguments[0], **arguments[1]))
            if len(value) > MOST_VALUE_BYTES:
                raise ValueError(_TOO_LARGE)
        except BaseException as error:  # noqa: BLE001, SystemExit too: the function ends, not we
            self._check_process()
            self._take_files(item)
            answers.failed(item, time.perf_counter() - began, answers.described(error))
        else:
            self._check_process()
            self._take_files(item)
            answers.returned(item, began, value)

    def _check_process(self) -> None:
        """A child of the function that came back here instead of ending."""
        if os.getpid() != _PID:
            os._exit(1)

    def _take_files(self, item: int) -> None:
        """What an item leaves is put aside under its number; a single call's stays where it is."""
        output = _PLACES[0]
        try:
            if os.stat(output).st_mtime_ns == 0:  # noqa: PTH116
                return
            aside = self._answers.put_files_aside()
            if self._is_array and os.listdir(output):  # noqa: PTH208
                os.makedirs(aside, exist_ok=True)  # noqa: PTH103
                os.rename(output, f"{aside}/{item}")  # noqa: PTH104
        except OSError:
            pass  # the function has spoilt it for itself
        if self._is_array:
            _make(output)


def _make(place: str) -> None:
    """An empty one's time is the beginning of all times, so that any change shows. Where the task
    has brought something along, a change deep in it would not."""
    try:
        os.makedirs(place, exist_ok=True)  # noqa: PTH103
        if os.listdir(place):  # noqa: PTH208
            return
        if place == _PLACES[0] and os.path.isdir(_BROUGHT):  # noqa: PTH112
            _copy(_BROUGHT, place)
        else:
            os.utime(place, ns=(0, 0))
    except OSError:
        pass


def _keep_brought() -> None:
    """What the task's folder has in the output directory, each call and each item finds there."""
    try:
        if os.listdir(_PLACES[0]):  # noqa: PTH208
            _copy(_PLACES[0], _BROUGHT)
    except OSError:
        pass


def _copy(source: str, place: str) -> None:
    import shutil

    shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)


def _clear() -> None:
    """For the next attempt: what the last one left is no matter of his."""
    for place in _PLACES:
        try:
            if os.stat(place).st_mtime_ns == 0:  # noqa: PTH116
                continue
        except OSError:
            pass
        _remove(place)
        _make(place)


def _remove(place: str) -> None:
    import shutil

    shutil.rmtree(os.path.join(_PLACE, place), ignore_errors=True)  # noqa: PTH118


class _Answers:
    """What leaves. The item's thread adds to it; another one sends what has waited."""

    def __init__(self, descriptor: int, plain: ModuleType) -> None:
        self._descriptor = descriptor
        self._plain = plain
        self._lock = threading.Lock()
        self._values: list[bytes] = []
        self._first = 0
        self._bytes = 0
        self._seconds = 0.0
        self._files, self._has_files = 1, False
        self._flushed = 0.0
        self._is_careful = False
        self._flush_seconds = 0.1
        self._at = self._told_at = -1
        self.busy = threading.Event()
        threading.Thread(target=self._send_what_waits, daemon=True).start()

    def begin(self, is_careful: bool, flush_seconds: float) -> None:
        self._is_careful, self._flush_seconds = is_careful, flush_seconds
        self._at = self._told_at = -1
        self._flushed = time.perf_counter()

    def at(self, item: int) -> None:
        self._at = item
        if self._is_careful:
            with self._lock:
                self._tell_at()

    def put_files_aside(self) -> str:
        """Where: each answer has a place of its own, so that it can be emptied meanwhile."""
        with self._lock:
            self._has_files = True
            return os.path.join(_PLACE, f"{COLLECTED}{self._files}")  # noqa: PTH118

    def returned(self, item: int, began: float, value: bytes) -> None:
        size = len(value) + 8
        with self._lock:
            self._at = -1
            if self._values and self._bytes + size > MOST_GATHERED_BYTES - 16:
                self._flush()
            if not self._values:
                self._first, self._bytes, self._seconds = item, 8, 0.0
            self._values.append(value)
            self._bytes += size
            now = time.perf_counter()
            self._seconds += now - began
            is_told = item == self._told_at  # its end too, before another one may end us
            if self._is_careful or is_told or now - self._flushed > self._flush_seconds:
                self._flush()

    def failed(self, item: int, seconds: float, error: bytes) -> None:
        with self._lock:
            self._at = -1
            self._flush()
            self._send(b"F", ANSWER.pack(self._taken_files(), seconds, item), error)

    def flush(self) -> None:
        with self._lock:
            self._flush()

    def send(self, kind: bytes, *parts: bytes) -> None:
        with self._lock:
            self._send(kind, *parts)

    def described(self, error: BaseException, is_loading: bool = False) -> bytes:
        kind = type(error)
        if kind is self._plain.PlainError:
            told = {"type": "PlainError", "message": str(error), "traceback": ""}
            return bytes(self._plain.encode(told))
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        message, trace = _message(error), _traceback(error)
        if is_loading and isinstance(error, ModuleNotFoundError):
            message += " (on the node; name what brings it in the dependencies of the task)"
        most = MOST_ERROR_BYTES
        while True:
            told = {
                "type": f"{module}{kind.__qualname__}"[:200],
                "message": message[: most // 4],
                "traceback": trace[-(most // 2) :],
            }
            if len(data := bytes(self._plain.encode(told))) <= MOST_ERROR_BYTES:
                return data
            most //= 2

    def _send_what_waits(self) -> None:
        while self.busy.wait():
            time.sleep(self._flush_seconds)
            with self._lock:
                if self.busy.is_set():
                    self._flush()
                    self._tell_at()

    def _tell_at(self) -> None:
        if self._at not in (-1, self._told_at):  # it runs, and nobody knows
            self._told_at = self._at
            self._send(b"A", AT.pack(self._at))

    def _flush(self) -> None:
        self._flushed = time.perf_counter()
        if not self._values:
            return
        values, self._values = self._values, []
        answer = ANSWER.pack(self._taken_files(), self._seconds, self._first)
        self._send(b"V", answer, _packed(values))

    def _taken_files(self) -> int:
        """The number of the place with the files of what is answered now; 0 if there is none."""
        if not self._has_files:
            return 0
        self._files, self._has_files = self._files + 1, False
        return self._files - 1

    def _send(self, kind: bytes, *parts: bytes) -> None:
        data = memoryview(b"".join((HEADER.pack(kind, sum(map(len, parts))), *parts)))
        while data:
            data = data[os.write(self._descriptor, data) :]


def _packed(values: "list[bytes]") -> bytes:
    """As wire/item_file.py says."""
    offsets, end = [0], 0
    for value in values:
        end += len(value)
        offsets.append(end)
    index = struct.pack(f"<{len(offsets) + 1}Q", len(values), *offsets)
    return b"".join((index, *values))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001, its own __str__ may raise anything
        return "(its message can not be told)"


def _traceback(error: BaseException) -> str:
    """Without what is ours, which is of no use to the function's author."""
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    try:
        return "".join(traceback.format_exception(error.with_traceback(trace)))
    except Exception:  # noqa: BLE001, nor must its parts be in order
        return ""


_PID, _PLACE = os.getpid(), os.getcwd()  # noqa: PTH109
_BROUGHT = os.path.join(_PLACE, ".brought")  # noqa: PTH118
_PLACES = [os.environ.get(f"POTLUCK_{name}", "") for name in ("OUTPUT", "CHECKPOINT")]
_TOO_LARGE = (
    f"What it returned is larger than {MOST_VALUE_BYTES // 2**20} MiB. "
    "Leave it as a file in $POTLUCK_OUTPUT instead."
)

if __name__ == "__main__":
    sys.exit(serve(*sys.argv[1:]))
