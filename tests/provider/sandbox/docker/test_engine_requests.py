"""What an engine is told, and what is made of what it says; nothing is run here."""

import asyncio
import errno
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from potluck.model.error import BadSettings, SandboxUnavailable
from potluck.model.task import MIB, EndReason
from potluck.provider.sandbox import seccomp
from potluck.provider.sandbox.choose import DriverSite, _find_containers
from potluck.provider.sandbox.docker import container_init, nvidia
from potluck.provider.sandbox.docker import engine as engines
from potluck.provider.sandbox.docker.bridge import parse_wait_status
from potluck.provider.sandbox.docker.container_cgroup import parse_container_group
from potluck.provider.sandbox.docker.container_config import (
    ContainerConfig,
    ContainerDefaults,
    RuntimeOverhead,
)
from potluck.provider.sandbox.docker.container_init import FrameDecoder, frame
from potluck.provider.sandbox.docker.engine import (
    Engine,
    EngineError,
    Image,
    ImageConfig,
    _split,
    find_socket,
    require_socket,
)
from potluck.provider.sandbox.docker.root import build_own_image, init_on_any_image
from potluck.provider.sandbox.docker.run import ContainerRun, ContainerSettings
from potluck.provider.sandbox.docker.seccomp_profile import make_profile
from potluck.provider.sandbox.docker.work_directory import ContainerWork
from potluck.provider.sandbox.driver import Confinement, Mount, RunHooks, StopRequest
from potluck.provider.sandbox.syscalls import ABSENT, FORBIDDEN, Processor
from potluck.provider.sandbox.work_disk import CACHE_BYTES, DirectoryDisk
from tests.provider.sandbox.conftest import confinement

CARD = (Mount(Path("/dev/null"), "/dev/nvidia0"),)


def encased(
    tmp_path: Path, defaults: ContainerDefaults | None = None, **changes: object
) -> dict[str, object]:
    """What the engine would be told of this run in an image with a volume."""
    confined: Confinement = confinement(image="some", **changes)
    image = Image("sha256:1", ImageConfig(env=["LD_PRELOAD=x", "A=b"], volumes={"/data": {}}))
    disk = DirectoryDisk(tmp_path / "disk", confined.disk_bytes)
    work = ContainerWork(tmp_path / "run", confined.disk_bytes, disk)
    try:
        parts = (
            defaults or ContainerDefaults("potluck.node=n", ("no-new-privileges",)),
            init_on_any_image(),
            image,
        )
        return ContainerConfig(confined, *parts, 1234, 1234, work).to_json()
    finally:
        work.remove()
        disk.release()


def test_every_wall_is_asked_for(tmp_path: Path) -> None:
    container_request = encased(tmp_path, environment={"TOKEN": "swordfish"}, cores=3)
    host = container_request["HostConfig"]
    assert isinstance(host, dict)
    assert "swordfish" not in json.dumps(container_request)
    assert container_request["Env"] == ["LD_PRELOAD="]
    assert container_request["User"] == "1234:1234"
    assert container_request["Healthcheck"] == {"Test": ["NONE"]}
    assert (host["NetworkMode"], host["IpcMode"], host["CapDrop"]) == ("none", "private", ["ALL"])
    assert (host["ReadonlyRootfs"], host["LogConfig"]) == (True, {"Type": "none"})
    assert host["Memory"] == host["MemorySwap"] == 128 * MIB + CACHE_BYTES
    assert (host["PidsLimit"], host["CpuQuota"]) == (33, 300_000)
    limits = {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]}
    assert (limits["core"], limits["nproc"]) == (0, 41)
    assert limits["fsize"] == 128 * MIB  # of a watched directory; also for shared memory
    assert not {"Privileged", "PidMode", "UTSMode", "CapAdd", "Devices"} & {
        name for name, value in host.items() if value
    }
    writable = [mount["Target"] for mount in host["Mounts"] if not mount["ReadOnly"]]
    assert writable == ["/work", "/tmp", "/data"]


def test_a_runtime_with_a_kernel_of_its_own_gets_room_for_it(tmp_path: Path) -> None:
    defaults = ContainerDefaults("a=b", (), "runsc", overhead=RuntimeOverhead(64 * MIB, 512))
    host = encased(tmp_path, defaults)["HostConfig"]
    assert isinstance(host, dict)
    assert (host["Runtime"], host["PidsLimit"]) == ("runsc", 545)


def test_cards_go_into_images_by_the_toolkit_and_others_as_nodes(tmp_path: Path) -> None:
    visible = {"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2"}
    host = encased(tmp_path, device_nodes=CARD, environment=visible)["HostConfig"]
    assert isinstance(host, dict)
    assert host["DeviceRequests"][0]["DeviceIDs"] == ["GPU-1", "GPU-2"]
    assert "Devices" not in host
    nodes = (Mount(Path("/dev/null"), "/dev/dri/renderD128"),)
    host = encased(tmp_path, device_nodes=nodes)["HostConfig"]
    assert isinstance(host, dict)
    assert host["Devices"][0]["PathInContainer"] == "/dev/dri/renderD128"
    assert "DeviceRequests" not in host


@pytest.mark.parametrize(
    ("toolkit_version", "word"),
    [
        (None, "not installed"),
        ("", "not installed"),
        ("NVIDIA Container Toolkit CLI version 1.16.1\ncommit: a", "1.16.1"),
        ("NVIDIA Container Toolkit CLI version 1.17.7\n", "1.17.7"),
        ("cli-version: 1.9.0\nlib-version: 1.9.0", "1.9.0"),
        ("NVIDIA Container Toolkit CLI version 1.17.8\n", None),
        ("NVIDIA Container Toolkit CLI version 1.20.0-rc.1", None),
        ("cli-version: 2.0.0", None),
    ],
)
def test_a_toolkit_that_lets_images_escape_is_refused(
    toolkit_version: str | None, word: str | None
) -> None:
    if word is None:
        nvidia.check_toolkit(toolkit_version)
        return
    with pytest.raises(SandboxUnavailable) as error_info:
        nvidia.check_toolkit(toolkit_version)
    assert word in error_info.value.detail
    assert "1.17.8" in error_info.value.hint


def refusing(rules: list[dict[str, object]], call: str, *arguments: int) -> int | None:
    """What libseccomp would answer to a call, or None where it is allowed."""
    compare: dict[str, Callable[[int, int, int], bool]] = {
        "SCMP_CMP_EQ": lambda value, operand, _: value == operand,
        "SCMP_CMP_NE": lambda value, operand, _: value != operand,
        "SCMP_CMP_GT": lambda value, operand, _: value > operand,
        "SCMP_CMP_MASKED_EQ": lambda value, operand, two: value & operand == two,
    }
    for rule in rules:
        names, conditions = rule["names"], rule["args"]
        assert isinstance(names, list) and isinstance(conditions, list)
        if call in names and all(
            compare[condition["op"]](
                arguments[condition["index"]], condition["value"], condition["valueTwo"]
            )
            for condition in conditions
        ):
            assert isinstance(rule["errnoRet"], int)
            return rule["errnoRet"]
    return None


@pytest.mark.parametrize("machine", Processor)
def test_the_filter_has_the_rules_of_bubblewraps(machine: Processor) -> None:
    rules = make_profile(machine)["syscalls"]
    assert isinstance(rules, list)
    assert {refusing(rules, name) for name in FORBIDDEN} == {errno.EPERM}
    assert {refusing(rules, name) for name in ABSENT} == {errno.ENOSYS}
    for bit in range(32):
        is_refused = bool(seccomp.CLONE_NAMESPACES >> bit & 1)
        assert (refusing(rules, "clone", 1 << bit | 17) is not None) is is_refused
    assert refusing(rules, "unshare", 0x10000000) == errno.EPERM
    allowed = {family for family in range(300) if refusing(rules, "socket", family, 1, 0) is None}
    assert allowed == {1, 2, 10, 16}
    assert refusing(rules, "socket", 16, 3, 9) == errno.EAFNOSUPPORT
    assert refusing(rules, "socket", (1 << 32) + 40, 1, 0) == errno.EAFNOSUPPORT
    for family in (2, 10):
        protocols = {
            number for number in range(300) if refusing(rules, "socket", family, 1, number) is None
        }
        assert protocols == {0, 6, 17}
        kinds = {
            number for number in range(16) if refusing(rules, "socket", family, number, 0) is None
        }
        assert kinds == {1, 2}
        assert refusing(rules, "socket", family, 1 | 0o2004000, 0) is None, "with flags"
        assert refusing(rules, "socket", family, 1, 262) == errno.EPROTONOSUPPORT
        assert refusing(rules, "socket", family, 5, 0) == errno.ESOCKTNOSUPPORT
    assert refusing(rules, "socketpair", 1, 1, 0) is None
    assert refusing(rules, "ioctl", 0, (1 << 32) + seccomp.TIOCSTI) == errno.EPERM
    for persona in (0, 0xFFFFFFFF):
        assert refusing(rules, "personality", persona) is None
    for persona in (1, 8, 0x0040000, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFE):
        assert refusing(rules, "personality", persona) == errno.EPERM


def test_gvisor_is_left_its_own_word_on_what_programs_can_do_without() -> None:
    rules = make_profile(Processor.X86_64, is_for_gvisor=True)["syscalls"]
    assert isinstance(rules, list)
    assert refusing(rules, "clone3") is None
    assert refusing(rules, "io_uring_setup") is not None


@pytest.mark.parametrize(
    ("image_seconds", "reason"), [(30.0, EndReason.RECLAIMED), (0.05, EndReason.PREPARE_TIME_LIMIT)]
)
async def test_waiting_for_an_image_holds_no_device(
    tmp_path: Path, image_seconds: float, reason: EndReason
) -> None:
    """Neither past the time that the task allows, nor when its owner wants it back."""

    async def never(_: str) -> Image:
        await asyncio.sleep(60)
        raise AssertionError

    async def unheard(_: str, __: bytes) -> None: ...

    unused, recall = cast(Any, None), StopRequest()
    settings = ContainerSettings(
        unused, "test", tmp_path, unused, unused, unused, "own", unused, unused, never
    )
    confined = confinement(image="large", image_seconds=image_seconds)
    run = ContainerRun(settings, confined, unheard, RunHooks(recall=recall))
    asyncio.get_running_loop().call_later(1.0, recall.ask, EndReason.RECLAIMED, 30.0)
    async with asyncio.timeout(10):
        assert (await run.to_its_end()).reason is reason


def test_no_end_is_believed_that_no_command_has() -> None:
    assert [parse_wait_status(text) for text in (b"0", b"256", b"9", b"139")] == [0, 256, 9, 139]
    for text in (b"127", b"65535", b"-1", b"%d" % 2**40, b"", b"nine"):
        with pytest.raises(ValueError, match=r"wait status|invalid literal"):
            parse_wait_status(text)


def test_frames_come_together_from_any_pieces() -> None:
    sent = [(b"1", b"out"), (b"m", b""), (b"x", bytes(300))]
    stream = b"".join(frame(kind, payload) for kind, payload in sent)
    frames = FrameDecoder()
    assert [
        complete_frame for place in stream for complete_frame in frames.feed(bytes([place]))
    ] == sent
    assert container_init.HEADER.size == 5


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("busybox", ("busybox", "latest")),
        ("python:3.12", ("python", "3.12")),
        ("localhost:5000/a/b", ("localhost:5000/a/b", "latest")),
        ("localhost:5000/a:1", ("localhost:5000/a", "1")),
        ("a@sha256:12", ("a", "sha256:12")),
    ],
)
def test_image_names_are_parsed(name: str, parts: tuple[str, str]) -> None:
    assert _split(name) == parts


def test_our_own_image_is_named_by_its_content() -> None:
    name, archive = build_own_image()
    assert build_own_image() == (name, archive)
    assert len(archive) < 100_000


def test_an_engine_is_found_at_its_usual_or_configured_socket(tmp_path: Path) -> None:
    place = tmp_path / "podman"
    place.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "podman.sock"))
        variables = {"XDG_RUNTIME_DIR": str(tmp_path)}
        usual = [Path("/var/run/docker.sock"), Path("/run/podman/podman.sock")]
        if not any(path.exists() for path in usual):
            assert find_socket("", variables) == place / "podman.sock"
    assert find_socket("unix:///some/where.sock") == Path("/some/where.sock")
    with pytest.raises(BadSettings):
        find_socket("tcp://10.0.0.1:2375")
    if not any(path.exists() for path in usual):
        with pytest.raises(SandboxUnavailable) as missing:
            require_socket("", {})
        assert "POTLUCK_PROVIDER_DOCKER_URL" in missing.value.hint


def test_the_first_process_does_nothing_where_it_is_not_the_first() -> None:
    """It ends every process that it sees."""
    process = subprocess.run(
        [sys.executable, container_init.__file__], capture_output=True, text=True
    )
    assert (process.returncode, process.stdout) == (1, "")
    assert "init of a container" in process.stderr


@pytest.mark.parametrize(
    ("version", "group_text", "files"),
    [
        (
            1,
            "4:memory:/docker/one\n3:pids:/docker/one\n2:cpu,cpuacct:/docker/one\n0::/\n",
            {
                "memory/docker/one/memory.limit_in_bytes": "5\n",
                "memory/docker/one/memory.oom_control": "oom_kill 1\n",
                "pids/docker/one/pids.max": "6\n",
                "pids/docker/one/pids.events": "max 2\n",
                "cpu,cpuacct/docker/one/cpu.cfs_quota_us": "7\n",
                "cpu,cpuacct/docker/one/cpuacct.usage": "2500000000\n",
            },
        ),
        (
            2,
            "0::/system.slice/docker-one.scope\n",
            {
                "system.slice/docker-one.scope/memory.max": "5\n",
                "system.slice/docker-one.scope/memory.events": "oom 1\noom_kill 1\n",
                "system.slice/docker-one.scope/pids.max": "6\n",
                "system.slice/docker-one.scope/pids.events": "max 2\n",
                "system.slice/docker-one.scope/cpu.max": "7 100000\n",
                "system.slice/docker-one.scope/cpu.stat": "usage_usec 2500000\n",
            },
        ),
    ],
)
def test_kernel_counters_are_found_in_both_cgroup_versions(
    tmp_path: Path, version: int, group_text: str, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    names = {name: name for name in ("memory", "pids")} | dict.fromkeys(
        ("cpu", "cpuacct"), "cpu,cpuacct"
    )
    mounts = {name: tmp_path / place for name, place in names.items()}
    group = parse_container_group(group_text, mounts if version == 1 else {"cgroup2": tmp_path})
    assert group is not None
    limits = {"memory": 5, "pids": 6, "cpu": 7}
    mechanism = f"cgroup v{version}"
    assert [group.mechanism(name, limit) for name, limit in limits.items()] == [mechanism] * 3
    assert [group.mechanism(name, 99) for name in limits] == [None] * 3
    assert (group.counts.was_out_of_memory(), group.counts.refused_a_process()) == (True, True)
    assert group.counts.cpu_seconds() == 2.5
    assert parse_container_group(group_text, {}) is None


async def test_a_toolkit_that_does_not_answer_is_not_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-ctk"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(nvidia, "_PROGRAMS", ("nvidia-ctk",))
    monkeypatch.setattr(nvidia, "_SECONDS", 0.5)
    assert await nvidia.toolkit_version() is None
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


async def test_an_engine_that_only_claims_to_remove_a_container_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_REMOVE_SECONDS", 0.2)
    attempts = 0

    async def agree(_: web.Request) -> web.Response:
        nonlocal attempts
        attempts += 1
        return web.Response(status=204)

    async with _engine(tmp_path, web.delete("/containers/{name}", agree)) as socket:
        with pytest.raises(EngineError, match="still exists"):
            await Engine(socket).remove("it")
    assert attempts < 10


async def test_the_error_of_an_engine_that_cannot_start_is_quoted(tmp_path: Path) -> None:
    """As Podman with a runtime that does not work here: it refuses when it is attached to."""
    cause = "preparing it for attach: crun: setrlimit: Operation not permitted"

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("/attach"):
            return web.json_response({"cause": "OCI", "message": cause}, status=409)
        if request.path == "/version":
            return web.json_response({"Version": "1", "Components": [{"Name": "Podman Engine"}]})
        is_delete = request.method == "DELETE"
        return web.json_response({"Id": "it"}, status=404 if is_delete else 200)

    async with _engine(tmp_path, web.route("*", "/{path:.*}", answer)) as socket:
        with pytest.raises(SandboxUnavailable, match=f": {cause}$") as error_info:
            await _find_containers(DriverSite(tmp_path / "data", "test", f"unix://{socket}"))
    assert "`podman run" in error_info.value.hint
    assert "POTLUCK_PROVIDER_DOCKER_URL" in error_info.value.hint


@asynccontextmanager
async def _engine(directory: Path, route: web.RouteDef) -> AsyncIterator[Path]:
    """One that answers as the test likes."""
    app = web.Application()
    app.router.add_routes([route])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(directory / "socket")).start()
        yield directory / "socket"
    finally:
        await runner.cleanup()
