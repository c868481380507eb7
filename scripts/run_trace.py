"""Traces one `potluck run hello.py`: the files and the value classes that it passes.

A real platform is started with `potluck up` in an empty home: a server with its own PostgreSQL, and
a provider with its sandbox. `up` runs a task of its own before it is ready, so what only a first
task needs is not counted. The idle platform is recorded for a while, and then the same run several
times, in the server, the provider and the client at once; scripts/tracer/sitecustomize.py records.

A file is passed when in every run one of its functions is called, or resumed, between the start of
the client and a moment after its end. What the platform does meanwhile of its own accord, such as a
heartbeat, is not in every run and so drops out, unless the machine is so busy that a run takes
longer than the heartbeat's interval: about 15 files more. Whatever runs while a module is imported
does not count, nor does what runs inside the sandbox, where nothing is traced.

Serving a request, say, takes the same files as in an idle platform, which polls. So a second figure
counts the files of which the runs call a function that the idle platform does not call, and a third
those that the idle platform does not pass at all. These two hardly depend on the machine.

A representation is a struct, dataclass or named tuple of the package of which every run makes an
instance. `copy.copy` and `NamedTuple._make` are not seen.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from scripts.source_figures import PACKAGE, ROOT, SOURCE, classes_of_package

_TRACER = Path(__file__).parent / "tracer"
_SCRIPT = ROOT / "examples" / "hello.py"
_NOT_RECORDED, _IDLE, _RUNS = "0", "1", "23456"
_START_SECONDS, _RUN_SECONDS, _STOP_SECONDS = 300.0, 120.0, 60.0
# A provider that has just started still measures its devices.
_SETTLE_SECONDS = 8.0
# Longer than the interval of heartbeats and of lease polls.
_IDLE_SECONDS = 25.0
# Server and provider clean up after the client has its result.
_CLEAN_UP_SECONDS = 2.0


class Record(NamedTuple):
    """A function or a class that was seen in a process."""

    kind: str
    place: str  # of a function its file, of a class its module
    name: str
    role: str


class RunTrace(NamedTuple):
    """What every run passed: for each file and each class, the processes that it was seen in."""

    files: dict[Path, set[str]]
    classes: dict[str, set[str]]
    functions: set[tuple[Path, str]]
    idle_functions: set[tuple[Path, str]]

    @property
    def own_files(self) -> set[Path]:
        """With a function that the runs call and the idle platform does not."""
        return {path for path, _ in self.functions - self.idle_functions}

    @property
    def files_not_idle(self) -> set[Path]:
        return self.files.keys() - {path for path, _ in self.idle_functions}


class TraceFailed(Exception):
    """The platform did not start, or the task did not succeed."""


def trace_run() -> RunTrace:
    """Starts a platform, runs one task on it and ends everything, on failure as well."""
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        with tempfile.TemporaryDirectory(prefix="potluck-trace-") as name:
            return _trace_in(Path(name))
    finally:
        signal.signal(signal.SIGTERM, before)


def _trace_in(directory: Path) -> RunTrace:
    records = directory / "records"
    records.mkdir()
    phase = records / "phase"
    phase.write_text(_NOT_RECORDED)
    environment = _environment(directory, records)
    with _platform(directory, environment):
        time.sleep(_SETTLE_SECONDS)
        _set_phase(phase, _IDLE)
        time.sleep(_IDLE_SECONDS)
        for run in _RUNS:
            _set_phase(phase, run)
            _run_task(environment)
            time.sleep(_CLEAN_UP_SECONDS)
        _set_phase(phase, _NOT_RECORDED)
    return _read_records(records)


def _environment(directory: Path, records: Path) -> dict[str, str]:
    """Without settings of the person who calls, and with the tracer in every Python process."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("POTLUCK_", "XDG_", "PYTHON"))
    }
    return {
        **kept,
        "HOME": str(directory),
        "PYTHONPATH": os.pathsep.join([str(_TRACER), str(SOURCE)]),
        "RUN_TRACE": str(records),
        "RUN_TRACE_PACKAGE": str(PACKAGE),
    }


@contextmanager
def _platform(directory: Path, environment: dict[str, str]) -> Iterator[None]:
    """`potluck up` from when it is ready; it ends its parts when it ends, however that is."""
    log = directory / "up.log"
    arguments = ["up", "--port", "0", "--data-dir", str(directory / "pool"), "--json"]
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            _potluck(*arguments),
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    limit = threading.Timer(_START_SECONDS, process.terminate)
    limit.start()
    try:
        _await_ready(process, log)
        limit.cancel()
        yield
    finally:
        limit.cancel()
        _stop(process)


def _await_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line.decode())
        event = json.loads(line)
        if event.get("event") == "provider_unavailable":
            break
        if event.get("event") == "ready":
            return
    raise TraceFailed(f"The platform did not start.\n{''.join(seen)}{log.read_text()}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()  # the kernel then ends its children
        process.communicate()


def _run_task(environment: dict[str, str]) -> None:
    done = subprocess.run(
        _potluck("run", _SCRIPT.name),
        env=environment,
        cwd=_SCRIPT.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
    )
    if done.returncode != 0 or "Hello, world!" not in done.stdout:
        raise TraceFailed(f"The task did not succeed.\n{done.stdout}{done.stderr}")


def _potluck(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "potluck", *arguments]


def _set_phase(path: Path, phase: str) -> None:
    """In place: the processes have this very file mapped."""
    with path.open("r+b") as file:
        file.write(phase.encode())


def _read_records(folder: Path) -> RunTrace:
    phases: dict[str, set[Record]] = defaultdict(set)
    for path in sorted(folder.glob("*.*")):
        role = path.name.partition(".")[0]
        for line in path.read_text().splitlines():
            phase, kind, place, name = line.split("\t")
            phases[phase].add(Record(kind, place, name, role))
    common = set.intersection(*(phases[run] for run in _RUNS))
    idle = _functions(phases[_IDLE])
    trace = RunTrace(defaultdict(set), defaultdict(set), _functions(common), idle)
    written = {_full_name(path, name) for path, name in classes_of_package()}
    for record in common:
        full_name = f"{record.place}.{record.name}"
        if record.kind == "function":
            trace.files[Path(record.place)].add(record.role)
        elif full_name in written:  # not one that a library made for our module
            trace.classes[full_name].add(record.role)
    return trace


def _functions(records: set[Record]) -> set[tuple[Path, str]]:
    return {(Path(record.place), record.name) for record in records if record.kind == "function"}


def _full_name(path: Path, class_name: str) -> str:
    module = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join([*(part for part in module if part != "__init__"), class_name])


def _exit(_number: int, _frame: FrameType | None) -> None:
    sys.exit(1)
