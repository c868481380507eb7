"""Runs inside the sandbox: loads a function once and calls it for each item it receives.

    interpreter_main.py PLAIN_VALUES CLOUDPICKLE

Both arguments are package folders. The function, the items and the results travel in frames over
the socket that is stdin, many items in one frame: see channel.py. Its output is the log. The
provider enforces time and resource limits: this program is trusted no more than the task.

Results are batched for a short time, and flushed even while an item takes long, together with the
number of the running item. In careful mode it announces each item first and flushes immediately;
the provider then sends the next item only after it has processed the last answer.
"""

import importlib.util
import io
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
CAREFUL, ARRAY, PICKLED, FRESH, TITLED = 1, 2, 4, 8, 16
# Precedes what an item writes, in a line with its number.
TITLE = b"\x1epotluck item "
# The largest value that fits inline in a message; a larger value is sent alone.
MOST_GATHERED_BYTES = 262_144
MOST_VALUE_BYTES = 64 * 2**20
MOST_ERROR_BYTES = 60_000
MOST_STDERR_CHARACTERS = 2_000
COLLECTED = ".collected-"  # followed by a number


def serve(plain_folder: str, pickler_folder: str) -> int:
    descriptor = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    frames = open(descriptor, "rb", buffering=2**18)  # noqa: PTH123, SIM115
    plain = _import_package("potluck_plain_values", plain_folder)  # not a name of the function's
    pickler = _import_package("cloudpickle", pickler_folder)
    answers = _Answers(descriptor, plain)
    _hide_main()
    function: Any = None
    job: _ItemsCall | None = None
    while frame := _read_frame(frames):
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


def _read_frame(frames: BinaryIO) -> "tuple[bytes, bytes] | None":
    header = frames.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    kind, size = HEADER.unpack(header)
    return kind, frames.read(size)


def _import_package(name: str, folder: str) -> ModuleType:
    """Imports a package from its folder, without making its neighbours importable."""
    path = os.path.join(folder, "__init__.py")  # noqa: PTH118
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _hide_main() -> None:
    """Gives the function an empty `__main__` and the work directory on its path, like a script."""
    sys.modules["potluck_serve"] = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    sys.argv, sys.path[0] = [""], os.getcwd()  # noqa: PTH109


def _load(code: bytes, answers: "_Answers") -> Any:
    try:
        function = pickle.loads(code)  # noqa: S301
    except BaseException as error:  # noqa: BLE001, all errors are reported to the task's owner
        answers.send(b"X", answers.encode_error(error, is_loading=True))
        return None
    answers.send(b"R")
    return function


class _ItemsCall:
    """Items of one attempt."""

    def __init__(
        self, data: bytes, answers: "_Answers", plain: ModuleType, pickler: ModuleType
    ) -> None:
        flags, flush_seconds = JOB.unpack_from(data)
        lines = data[JOB.size :].split(b"\0")
        os.environb.update(tuple(line.split(b"=", 1)) for line in lines if line)  # type: ignore[misc]
        if flags & FRESH:
            _save_initial_output()
            _make(_DIRECTORIES[0])
        else:
            _clear()
        self._answers = answers
        self._is_array = bool(flags & ARRAY)
        self._encode = pickler.dumps if flags & PICKLED else plain.encode
        answers.begin(bool(flags & CAREFUL), flush_seconds, bool(flags & TITLED))

    def run(self, function: Any, data: bytes) -> None:
        start, count = ITEMS.unpack_from(data)
        offsets = struct.unpack_from(f"<{count + 1}Q", data, ITEMS.size)
        base = ITEMS.size + 8 * (count + 1) - offsets[0]
        view, answers = memoryview(data), self._answers
        os.chdir(_WORK)
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
        answers.start_item(item)
        began = time.perf_counter()
        try:
            arguments = pickle.loads(given)  # noqa: S301
            if type(arguments) is tuple:
                value = self._encode(function(*arguments))
            else:
                value = self._encode(function(*arguments[0], **arguments[1]))
            if len(value) > MOST_VALUE_BYTES:
                raise ValueError(_TOO_LARGE)
        except BaseException as error:  # noqa: BLE001, SystemExit too: it must not end this process
            self._check_process()
            self._take_files(item)
            answers.failed(item, time.perf_counter() - began, answers.encode_error(error))
        else:
            self._check_process()
            self._take_files(item)
            answers.returned(item, began, value)

    def _check_process(self) -> None:
        """Exits if this is a child that the function forked and that returned here."""
        if os.getpid() != _PID:
            os._exit(1)

    def _take_files(self, item: int) -> None:
        """Moves an item's output files to a folder of its number; a single call's files stay."""
        output = _DIRECTORIES[0]
        try:
            if os.stat(output).st_mtime_ns == 0:  # noqa: PTH116
                return
            aside = self._answers.next_files_folder()
            if self._is_array and os.listdir(output):  # noqa: PTH208
                os.makedirs(aside, exist_ok=True)  # noqa: PTH103
                os.rename(output, f"{aside}/{item}")  # noqa: PTH104
        except OSError:
            pass  # the function has damaged its own output directory
        if self._is_array:
            _make(output)


def _make(path: str) -> None:
    """Creates the directory. An empty one gets mtime 0, so that any change shows; not with initial
    files of the task, as changes in subdirectories would not show."""
    try:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103
        if os.listdir(path):  # noqa: PTH208
            return
        if path == _DIRECTORIES[0] and os.path.isdir(_INITIAL_OUTPUT):  # noqa: PTH112
            _copy(_INITIAL_OUTPUT, path)
        else:
            os.utime(path, ns=(0, 0))
    except OSError:
        pass


def _save_initial_output() -> None:
    """Saves initial files in the output directory, to restore them for each call and item."""
    try:
        if os.listdir(_DIRECTORIES[0]):  # noqa: PTH208
            _copy(_DIRECTORIES[0], _INITIAL_OUTPUT)
    except OSError:
        pass


def _copy(source: str, path: str) -> None:
    import shutil

    shutil.copytree(source, path, symlinks=True, dirs_exist_ok=True)


def _clear() -> None:
    """Removes files of the last attempt."""
    for path in _DIRECTORIES:
        try:
            if os.stat(path).st_mtime_ns == 0:  # noqa: PTH116
                continue
        except OSError:
            pass
        _remove(path)
        _make(path)


def _remove(path: str) -> None:
    import shutil

    shutil.rmtree(os.path.join(_WORK, path), ignore_errors=True)  # noqa: PTH118


class _Answers:
    """Outgoing frames. The main thread adds results; another thread flushes them periodically."""

    def __init__(self, descriptor: int, plain: ModuleType) -> None:
        self._descriptor, self._plain = descriptor, plain
        self._lock, self._values = threading.Lock(), list[bytes]()
        self._first = self._bytes = 0
        self._seconds = self._flushed = 0.0
        self._files, self._has_files = 1, False
        self._is_careful, self._is_titled, self._flush_seconds = False, False, 0.1
        self._running = self._announced = -1
        self.busy = threading.Event()
        self.stderr, self.stdout = sys.stderr, sys.stdout = _Output(2), _Output(1)
        threading.Thread(target=self._flush_periodically, daemon=True).start()

    def begin(self, is_careful: bool, flush_seconds: float, is_titled: bool = False) -> None:
        self._is_careful, self._flush_seconds = is_careful, flush_seconds
        self._running, self._announced, self._is_titled = -1, -1, is_titled
        self._flushed = time.perf_counter()

    def start_item(self, item: int) -> None:
        self._running = item
        self.stderr.end = ""
        self.stderr.title = self.stdout.title = item if self._is_titled else None
        if self._is_careful:
            with self._lock:
                self._announce()

    def next_files_folder(self) -> str:
        """Returns the folder of the next answer, which the provider empties later."""
        with self._lock:
            self._has_files = True
            return os.path.join(_WORK, f"{COLLECTED}{self._files}")  # noqa: PTH118

    def returned(self, item: int, began: float, value: bytes) -> None:
        size = len(value) + 8
        with self._lock:
            self._running = -1
            if self._values and self._bytes + size > MOST_GATHERED_BYTES - 16:
                self._flush()
            if not self._values:
                self._first, self._bytes, self._seconds = item, 8, 0.0
            self._values.append(value)
            self._bytes += size
            now = time.perf_counter()
            self._seconds += now - began
            is_announced = item == self._announced  # so its end is reported before the next item
            if self._is_careful or is_announced or now - self._flushed > self._flush_seconds:
                self._flush()

    def failed(self, item: int, seconds: float, error: bytes) -> None:
        with self._lock:
            self._running = -1
            self._flush()
            self._send(b"F", ANSWER.pack(self._take_files_number(), seconds, item), error)

    def flush(self) -> None:
        with self._lock:
            self._flush()

    def send(self, kind: bytes, *parts: bytes) -> None:
        with self._lock:
            self._send(kind, *parts)

    def encode_error(self, error: BaseException, is_loading: bool = False) -> bytes:
        kind = type(error)
        if kind is self._plain.PlainError:
            fields = {"type": "PlainError", "message": str(error), "traceback": "", "stderr": ""}
            return bytes(self._plain.encode(fields))
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        message, trace = _message(error), _traceback(error)
        if is_loading and isinstance(error, ModuleNotFoundError):
            message += " (on the node; add its package to the task's dependencies)"
        most = MOST_ERROR_BYTES
        while True:
            fields = {
                "type": f"{module}{kind.__qualname__}"[:200],
                "message": message[: most // 4],
                "traceback": trace[-(most // 2) :],
                "stderr": self.stderr.end[-(most // 32) :],
            }
            if len(data := bytes(self._plain.encode(fields))) <= MOST_ERROR_BYTES:
                return data
            most //= 2

    def _flush_periodically(self) -> None:
        while self.busy.wait():
            time.sleep(self._flush_seconds)
            with self._lock:
                if self.busy.is_set():
                    self._flush()
                    self._announce()

    def _announce(self) -> None:
        if self._running not in (-1, self._announced):
            self._announced = self._running
            self._send(b"A", AT.pack(self._running))

    def _flush(self) -> None:
        self._flushed = time.perf_counter()
        if not self._values:
            return
        values, self._values = self._values, []
        answer = ANSWER.pack(self._take_files_number(), self._seconds, self._first)
        self._send(b"V", answer, _pack_item_file(values))

    def _take_files_number(self) -> int:
        """The number of the folder with the files of this answer; 0 if there are none."""
        if not self._has_files:
            return 0
        self._files, self._has_files = self._files + 1, False
        return self._files - 1

    def _send(self, kind: bytes, *parts: bytes) -> None:
        data = memoryview(b"".join((HEADER.pack(kind, sum(map(len, parts))), *parts)))
        while data:
            data = data[os.write(self._descriptor, data) :]


class _Output(io.TextIOWrapper):
    """Keeps the end of what the running item wrote, and puts its title before it."""

    def __init__(self, descriptor: int) -> None:
        raw = open(descriptor, "wb", buffering=0, closefd=False)  # noqa: SIM115
        super().__init__(raw, "utf-8", "backslashreplace", write_through=True)
        self.end = ""
        self.title: int | None = None

    def write(self, text: str) -> int:
        if self.title is not None and text:
            title, self.title = self.title, None
            self.buffer.write(TITLE + b"%d\n" % title)
        self.end = (self.end + text)[-MOST_STDERR_CHARACTERS:]
        return super().write(text)


def _pack_item_file(values: "list[bytes]") -> bytes:
    """The format of wire/item_file.py."""
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
        return "(its message is unavailable)"


def _traceback(error: BaseException) -> str:
    """Without our own frames, which do not help the function's author."""
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    try:
        return "".join(traceback.format_exception(error.with_traceback(trace)))
    except Exception:  # noqa: BLE001, its parts may be malformed
        return ""


_PID, _WORK = os.getpid(), os.getcwd()  # noqa: PTH109
_INITIAL_OUTPUT = os.path.join(_WORK, ".brought")  # noqa: PTH118
_DIRECTORIES = [os.environ.get(f"POTLUCK_{name}", "") for name in ("OUTPUT", "CHECKPOINT")]
_TOO_LARGE = (
    f"The returned value is larger than {MOST_VALUE_BYTES // 2**20} MiB. "
    "Write it to a file in $POTLUCK_OUTPUT instead."
)

if __name__ == "__main__":
    sys.exit(serve(*sys.argv[1:]))
