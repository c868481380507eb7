"""The Docker API over its Unix socket, as far as the driver needs it.

Paths name no version: every engine then answers in its newest, and what is used here has not
changed since 1.40. Docker 20.10 and Podman 4.3 are tried.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import Struct

from potluck.model.error import BadSettings, SandboxUnavailable

_UNIX = "unix://"


def find_socket(url: str, variables: Mapping[str, str] = os.environ) -> Path | None:
    """The one that the owner names, else the first of those that this user may open."""
    if url:
        return _named(url)
    return next((path for path in _usual(variables) if os.access(path, os.R_OK | os.W_OK)), None)


def require_socket(url: str, variables: Mapping[str, str] = os.environ) -> Path:
    found = find_socket(url, variables)
    if found is None:
        raise SandboxUnavailable(
            "There is no container engine here that this user may talk to.",
            "Install Docker or Podman and let this user open its socket (`sudo usermod -aG docker "
            "USER`, or `systemctl --user start podman.socket`), or name it: "
            "POTLUCK_PROVIDER_DOCKER_URL=unix:///path/to/its.sock.",
        )
    return found


def _named(url: str) -> Path:
    """Only on this machine: what is mounted into a container lies here."""
    if not url.startswith(f"{_UNIX}/"):
        raise BadSettings(
            f"docker_url {url!r} is no socket of this machine.",
            "Write it like unix:///var/run/docker.sock.",
        )
    return Path(url.removeprefix(_UNIX))


def _usual(variables: Mapping[str, str]) -> list[Path]:
    own = variables.get("XDG_RUNTIME_DIR")
    places = [Path("/var/run/docker.sock"), Path("/run/podman/podman.sock")]
    if own:
        places += [Path(own) / "docker.sock", Path(own) / "podman/podman.sock"]
    return places


_SECONDS = 120.0
_FACTS_SECONDS = 10.0
_PULL_SECONDS = 86_400.0  # as long as a task may allow
_GONE = 404
NAME_TAKEN = 409  # the name of a container
_REMOVE_SECONDS = 30.0
_AGAIN_SECONDS = 0.05


class EngineError(Exception):
    """The engine refused, or is not there; says what it said."""

    def __init__(self, detail: str, status: int = 0) -> None:
        super().__init__(detail)
        self.status = status


class EngineFacts(Struct, frozen=True):
    """What an engine says of itself."""

    name: str  # "Docker" or "Podman"
    version: str
    runtimes: tuple[str, ...]
    is_rootless: bool


class ImageConfig(Struct, frozen=True, rename="pascal"):
    """What an image says of how it is run. Null and absent are the same to engines."""

    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    env: list[str] | None = None
    volumes: dict[str, object] | None = None


class Image(Struct, frozen=True, rename="pascal"):
    id: str
    config: ImageConfig | None = None


class _Component(Struct, frozen=True, rename="pascal"):
    name: str = ""


class _Version(Struct, frozen=True, rename="pascal"):
    version: str = ""
    components: list[_Component] | None = None


class _Info(Struct, frozen=True, rename="pascal"):
    runtimes: dict[str, object] | None = None
    security_options: list[str] | None = None


class _State(Struct, frozen=True, rename="pascal"):
    pid: int = 0
    error: str = ""


class _Container(Struct, frozen=True, rename="pascal"):
    id: str
    state: _State = _State()


class _Made(Struct, frozen=True, rename="pascal"):
    id: str


class _PullProgress(Struct, frozen=True):
    error: str = ""


class Engine:
    """One engine on this machine."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    async def facts(self) -> EngineFacts:
        said, told = await asyncio.gather(
            self._ask("GET", "/version", seconds=_FACTS_SECONDS),
            self._ask("GET", "/info", seconds=_FACTS_SECONDS),
        )
        version = msgspec.json.decode(said, type=_Version)
        info = msgspec.json.decode(told, type=_Info)
        components = [component.name for component in version.components or ()]
        is_podman = any("podman" in name.lower() for name in components)
        options = info.security_options or []
        return EngineFacts(
            "Podman" if is_podman else "Docker",
            version.version,
            tuple(info.runtimes or ()),
            any("rootless" in option for option in options),
        )

    async def image(self, name: str) -> Image | None:
        """None when it is not here."""
        try:
            answer = await self._ask("GET", f"/images/{quote(name, safe='')}/json")
        except EngineError as error:
            if error.status == _GONE:
                return None
            raise
        return msgspec.json.decode(answer, type=Image)

    async def pull(self, name: str) -> None:
        repository, tag = _split(name)
        query = {"fromImage": repository, "tag": tag}
        answer = await self._ask("POST", "/images/create", query, seconds=_PULL_SECONDS)
        _check_progress(answer)

    async def import_image(self, archive: bytes, name: str, label: str) -> None:
        """An image with these files and nothing else. (Podman knows no tag here but `latest`.)"""
        query = {"fromSrc": "-", "repo": name, "tag": "latest", "changes": f"LABEL {label}"}
        _check_progress(await self._ask("POST", "/images/create", query, archive))

    async def create(self, name: str, casing: Mapping[str, object]) -> str:
        """The container's id."""
        body = json.dumps(casing).encode()
        answer = await self._ask("POST", "/containers/create", {"name": name}, body)
        return msgspec.json.decode(answer, type=_Made).id

    async def start(self, container: str) -> None:
        await self._ask("POST", f"/containers/{container}/start")

    async def pid(self, container: str) -> int:
        """Of its first process, as this machine counts; 0 when it does not run."""
        answer = await self._ask("GET", f"/containers/{container}/json")
        return msgspec.json.decode(answer, type=_Container).state.pid

    async def remove(self, container: str) -> None:
        """Ends it and all of it; returns when it is gone.

        Engines refuse it now and then to who asks while it ends by itself, so it is asked again.
        """
        query = {"force": "true", "v": "true"}
        deadline = time.monotonic() + _REMOVE_SECONDS
        while True:
            try:
                await self._ask("DELETE", f"/containers/{container}", query)
            except EngineError as error:
                if error.status == _GONE:
                    return
                if time.monotonic() > deadline:
                    raise
            else:
                if time.monotonic() > deadline:
                    raise EngineError(f"{container} is still there after it was removed")
            await asyncio.sleep(_AGAIN_SECONDS)

    async def labelled(self, label: str) -> list[str]:
        """Containers with this label, running or not."""
        query = {"all": "true", "filters": json.dumps({"label": [label]})}
        answer = await self._ask("GET", "/containers/json", query)
        return [made.id for made in msgspec.json.decode(answer, type=list[_Made])]

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        seconds: float = _SECONDS,
    ) -> bytes:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with (
                self._session(seconds) as session,
                session.request(
                    method, f"http://engine{path}", params=query, data=body, headers=headers
                ) as response,
            ):
                answer = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EngineError(f"{self.socket} does not answer: {error!r}") from error
        if response.status >= 400:
            raise EngineError(error_text(answer), response.status)
        return answer

    @asynccontextmanager
    async def _session(self, seconds: float) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.UnixConnector(path=str(self.socket))
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            yield session


def _split(name: str) -> tuple[str, str]:
    """Into repository and tag; a digest goes in the place of the tag."""
    if "@" in name:
        repository, _, digest = name.partition("@")
        return repository, digest
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "latest")


def error_text(answer: bytes) -> str:
    """Why an engine refused, in its own words."""
    try:
        told = json.loads(answer)
        return str(told.get("message") or told.get("cause") or told)
    except (ValueError, AttributeError):
        return answer.decode(errors="replace").strip() or "the engine refused without a word"


def _check_progress(answer: bytes) -> None:
    """Progress comes as lines of JSON with status 200, whatever becomes of it."""
    for line in answer.splitlines():
        try:
            progress = msgspec.json.decode(line, type=_PullProgress)
        except msgspec.MsgspecError:
            continue
        if progress.error:
            raise EngineError(progress.error)
