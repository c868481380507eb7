"""Runs uv in a sandbox: turns requirements into a lock, and a lock into an environment.

Each step is a sandbox run of its own, without secrets, devices, or network except for the proxy.
Wheels only, unless the owner allows builds; no configuration files, no other sources. uv's cache is
next to the installed files, so that they are hard links, and is removed after the step.
"""

import asyncio
from pathlib import Path

import uv
from msgspec import Struct
from msgspec.structs import replace

from potluck.model.error import StartFailed
from potluck.model.script import ScriptMetadata
from potluck.model.task import EndReason
from potluck.provider.dependencies import command_sequence
from potluck.provider.dependencies.directory_size import watch_size
from potluck.provider.dependencies.lock import check_lock
from potluck.provider.dependencies.outcome import HostsUnreachable, PrepareFailed, prepare_failed
from potluck.provider.dependencies.package_index import PackageIndex
from potluck.provider.dependencies.python_list import PythonList
from potluck.provider.dependencies.settings import PrepareSettings
from potluck.provider.dependencies.staging import Stage, remove_trees
from potluck.provider.egress.egress import Egress
from potluck.provider.egress.guard import EgressRules
from potluck.provider.egress.proxy import Proxy, ProxyLimits
from potluck.provider.sandbox.driver import (
    ENVIRONMENT,
    PYTHON,
    WORK,
    Confinement,
    Driver,
    Mount,
    Output,
    RunOutcome,
)

LIVE_BYTES = 16_384
TAIL_BYTES = 4_096
_DECORATION = str.maketrans(dict.fromkeys("×╰─▶│├╭╮╯·", " "))


class Transcript:
    """The output of one step: stdout is its result, stderr goes to the task's log.

    The log gets the first part as it arrives and the last part at the end. Both steps of an
    installation together stay below the 64 KiB that the server allows besides the task's output.
    """

    def __init__(self, output: Output):
        self._output = output
        self._answer = bytearray()
        self._tail = bytearray()
        self._unsent = bytearray()
        self._room_bytes = LIVE_BYTES
        self._omitted_bytes = 0

    async def take(self, stream: str, data: bytes) -> None:
        if stream == "stdout":
            self._answer.extend(data)
            return
        self._tail.extend(data)
        del self._tail[:-TAIL_BYTES]
        self._unsent.extend(data)
        # uv writes its lines in many small pieces.
        if b"\n" in data or len(self._unsent) > TAIL_BYTES:
            await self._send()

    async def finish(self) -> None:
        """Sends the rest and, if output was omitted, the last part of it."""
        await self._send()
        if self._omitted_bytes:
            last = bytes(self._tail[-self._omitted_bytes :])
            skipped_bytes = self._omitted_bytes - len(last)
            mark = f"\n({skipped_bytes:,} bytes of the installer's output omitted)\n"
            await self._output("potluck", mark.encode() + last)

    async def _send(self) -> None:
        data = bytes(self._unsent[: self._room_bytes])
        self._omitted_bytes += len(self._unsent) - len(data)
        self._room_bytes -= len(data)
        self._unsent.clear()
        if data:
            await self._output("potluck", data)

    @property
    def answer(self) -> str:
        return self._answer.decode("utf-8", "replace")

    @property
    def last_output(self) -> str:
        return self._tail.decode("utf-8", "replace").translate(_DECORATION).strip()


INTERPRETER = f"{ENVIRONMENT}/bin/python"

_UV = "/opt/potluck/uv"
_CACHE = ".cache"

_RESOLVE = (
    *(_UV, "pip", "compile", "--generate-hashes", "--no-header", "--no-annotate"),
    f"{WORK}/requirements.in",
)
_MAKE_VENV = (_UV, "venv", "--quiet", "--allow-existing", ENVIRONMENT)
# The environment is read-only later, so bytecode is compiled now.
_INSTALL = (
    *(_UV, "pip", "install", "--require-hashes", "--no-deps", "--compile-bytecode"),
    *("--python", INTERPRETER, "--requirements", f"{WORK}/lock.txt"),
)
_FETCH_PYTHON = (_UV, "python", "install", "--no-bin", "--install-dir", ENVIRONMENT)


class BasePython(Struct, frozen=True):
    """The interpreter that an environment is made for, and the mounts that it needs."""

    interpreter: str = PYTHON
    mounts: tuple[Mount, ...] = ()


class Installer:
    def __init__(
        self, driver: Driver, index: PackageIndex, settings: PrepareSettings, egress: Egress
    ):
        self._driver = driver
        self._index = index
        self._settings = settings
        self._egress = egress
        self._uv = find_uv()

    async def resolve(
        self, stage: Stage, metadata: ScriptMetadata, python: BasePython, output: Output
    ) -> str:
        """Resolves the lock for these requirements; raises PrepareFailed."""
        files = {"requirements.in": "\n".join([*metadata.dependencies, ""]).encode()}
        command = (*self._only_wheels(_RESOLVE), "--python", python.interpreter)
        run = self._confinement(stage, "resolve", files, command)
        return check_lock(
            await self._run(stage, _with_python(run, python), output, self._index_rules())
        )

    async def install(self, stage: Stage, lock: str, python: BasePython, output: Output) -> None:
        """Installs the lock into the stage's environment; raises PrepareFailed."""
        files = {"lock.txt": lock.encode()}
        make_venv = (*_MAKE_VENV, "--python", python.interpreter)
        run = self._confinement(stage, "install", files, make_venv, self._only_wheels(_INSTALL))
        await self._run(stage, _with_python(run, python), output, self._index_rules())
        await remove_trees(stage.environment / _CACHE)

    async def fetch_python(
        self, stage: Stage, version: str, source: PythonList, output: Output
    ) -> None:
        """Fetches this version into a directory of the stage's; raises PrepareFailed."""
        command = (*_FETCH_PYTHON, *source.options, version)
        run = self._confinement(stage, "python", {}, command)
        allowed = {**run.environment, "UV_PYTHON_DOWNLOADS": "manual"}
        rules = EgressRules(
            trusted=source.endpoints(), refusal="It is not a host that Pythons are fetched from."
        )
        run = replace(run, environment=allowed)
        await self._run(stage, run, output, rules, f"Python {version}", is_from_node=True)

    def _index_rules(self) -> EgressRules:
        return EgressRules(
            trusted=self._index.endpoints(), refusal="It is not a host of the package index."
        )

    def _only_wheels(self, command: tuple[str, ...]) -> tuple[str, ...]:
        return command if self._settings.allow_builds else (*command, "--no-build")

    async def _run(
        self,
        stage: Stage,
        confinement: Confinement,
        output: Output,
        rules: EgressRules,
        what: str = "The dependencies",
        is_from_node: bool = False,
    ) -> str:
        limits = ProxyLimits(total_bytes=self._settings.download_bytes)
        proxy = self._egress.make_proxy(stage.name, rules, limits)
        transcript = Transcript(output)
        await stage.empty()
        async with proxy.serving(self._egress.directory) as socket:
            run = replace(confinement, proxy=socket)
            ended = await self._run_watched(stage, run, transcript)
        await transcript.finish()
        if ended.reason is not EndReason.COMPLETED:
            failure = _explain(what, ended, transcript, proxy)
            if is_from_node and proxy.unreachable:
                raise HostsUnreachable(failure.detail, proxy.unreachable)
            raise failure
        return transcript.answer

    async def _run_watched(
        self, stage: Stage, confinement: Confinement, transcript: Transcript
    ) -> RunOutcome:
        run = asyncio.create_task(self._driver.run(confinement, transcript.take))
        guard = asyncio.create_task(watch_size(stage.environment, self._settings))
        try:
            await asyncio.wait({run, guard}, return_when=asyncio.FIRST_COMPLETED)
            if guard.done():
                guard.result()
            return run.result()
        finally:
            run.cancel()
            guard.cancel()
            await asyncio.gather(run, guard, return_exceptions=True)

    def _confinement(
        self, stage: Stage, phase: str, files: dict[str, bytes], *commands: tuple[str, ...]
    ) -> Confinement:
        words = [word for command in commands for word in ("--", *command)]
        program = {"command_sequence.py": Path(command_sequence.__file__).read_bytes()}
        return Confinement(
            name=f"{stage.name}-{phase}",
            command=(PYTHON, "-I", "-S", f"{WORK}/command_sequence.py", *words),
            memory_bytes=self._settings.memory_bytes,
            disk_bytes=self._settings.work_bytes,
            processes=self._settings.processes,
            cores=self._settings.cores,
            seconds=86_400.0,  # the preparer limits the time of all steps together
            environment=self._variables(),
            files=program | files,
            mounts=(Mount(self._uv, _UV), Mount(stage.environment, ENVIRONMENT, writable=True)),
        )

    def _variables(self) -> dict[str, str]:
        return {
            "UV_DEFAULT_INDEX": self._index.url,
            "UV_NO_CONFIG": "1",
            "UV_NO_SOURCES": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_CACHE_DIR": f"{ENVIRONMENT}/{_CACHE}",
            "UV_LINK_MODE": "hardlink",
            "UV_SYSTEM_CERTS": "1",
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
            # The owner's index may be on this machine, and is reached by the proxy too.
            **dict.fromkeys(("NO_PROXY", "no_proxy"), ""),
        }


def _with_python(run: Confinement, python: BasePython) -> Confinement:
    return replace(run, mounts=(*run.mounts, *python.mounts))


def find_uv() -> Path:
    try:
        return Path(uv.find_uv_bin())
    except FileNotFoundError as error:
        raise StartFailed(
            "The program uv, which installs the dependencies of scripts, is not installed.",
            "Reinstall Potluck.",
        ) from error


def _explain(what: str, ended: RunOutcome, transcript: Transcript, proxy: Proxy) -> PrepareFailed:
    if ended.reason is EndReason.SANDBOX_FAILED:
        return PrepareFailed(ended.reason, ended.detail)
    cause = transcript.last_output if ended.reason is EndReason.EXIT_STATUS else ended.detail
    sentences = [f"{what} could not be installed: {cause}"]
    if proxy.refused:
        sentences.append(f"This node does not allow connections to {', '.join(proxy.refused)}.")
    if proxy.not_public:
        sentences.append(f"Not public, and refused: {', '.join(proxy.not_public)}.")
    if proxy.unreachable:
        sentences.append(f"This node cannot reach {', '.join(proxy.unreachable)}.")
    if proxy.budget.is_exhausted:
        sentences.append("They exceed the download limit of this node.")
    return prepare_failed(" ".join(sentences))
