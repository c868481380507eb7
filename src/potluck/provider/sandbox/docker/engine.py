"""The part of the Docker API that the driver needs, over the engine's Unix socket.

Paths name no API version, so each engine uses its newest; the calls used here have not changed
since 1.40. Tested with Docker 20.10 and Podman 4.3. Also finds the socket on this machine.
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
    """The configured socket, else the first usual one that this user may open."""
    if url:
        return _parse_url(url)
    return next(
        (path for path in _usual_sockets(variables) if os.access(path, os.R_OK | os.W_OK)), None
    )


def require_socket(url: str, variables: Mapping[str, str] = os.environ) -> Path:
    path = find_socket(url, variables)
    if path is None:
        raise SandboxUnavailable(
            "This user has no access to a container engine on this machine.",
            "Install Podman, which needs no set-up, or Docker and give this user access"
            " (`sudo usermod -aG docker USER`), or name the socket: "
            "POTLUCK_PROVIDER_DOCKER_URL=unix:///path/to/its.sock.",
        )
    return path


def _parse_url(url: str) -> Path:
    """Only local sockets: containers mount directories of this machine."""
    if not url.startswith(f"{_UNIX}/"):
        raise BadSettings(
            f"docker_url {url!r} is not a socket of this machine.",
            "Write it like unix:///var/run/docker.sock.",
        )
    return Path(url.removeprefix(_UNIX))


def _usual_sockets(variables: Mapping[str, str]) -> list[Path]:
    own = variables.get("XDG_RUNTIME_DIR")
    paths = [Path("/var/run/docker.sock"), Path("/run/podman/podman.sock")]
    if own:
        paths += [Path(own) / "docker.sock", Path(own) / "podman/podman.sock"]
    return paths


_REQUEST_SECONDS = 120.0
_FACTS_SECONDS = 10.0
_PULL_SECONDS = 86_400.0  # the most that a task may allow
_NOT_FOUND = 404
NAME_TAKEN = 409
_REMOVE_SECONDS = 30.0
_RETRY_SECONDS = 0.05


class EngineError(Exception):
    """The engine refused the request or does not response; the message is the engine's."""

    def __init__(self, detail: str, status: int = 0) -> None:
        super().__init__(detail)
        self.status = status


class EngineFacts(Struct, frozen=True):
    """Version and features of an engine."""

    name: str  # "Docker" or "Podman"
    version: str
    runtimes: tuple[str, ...]
    is_rootless: bool


class ImageConfig(Struct, frozen=True, rename="pascal"):
    """How to run an image. Engines treat null and absent alike."""

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
    rootless: bool = False  # as Podman says it


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
        version_response, info_response = await asyncio.gather(
            self._request("GET", "/version", seconds=_FACTS_SECONDS),
            self._request("GET", "/info", seconds=_FACTS_SECONDS),
        )
        version = msgspec.json.decode(version_response, type=_Version)
        info = msgspec.json.decode(info_response, type=_Info)
        components = [component.name for component in version.components or ()]
        is_podman = any("podman" in name.lower() for name in components)
        options = info.security_options or []
        return EngineFacts(
            "Podman" if is_podman else "Docker",
            version.version,
            tuple(info.runtimes or ()),
            info.rootless or any("rootless" in option for option in options),
        )

    async def image(self, name: str) -> Image | None:
        """None if the engine does not have it."""
        try:
            response = await self._request("GET", f"/images/{quote(name, safe='')}/json")
        except EngineError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return msgspec.json.decode(response, type=Image)

    async def pull(self, name: str) -> None:
        repository, tag = _split(name)
        query = {"fromImage": repository, "tag": tag}
        response = await self._request("POST", "/images/create", query, seconds=_PULL_SECONDS)
        _check_progress(response)

    async def import_image(self, archive: bytes, name: str, label: str) -> None:
        """Creates an image from these files. (Podman accepts only the tag `latest` here.)"""
        query = {"fromSrc": "-", "repo": name, "tag": "latest", "changes": f"LABEL {label}"}
        _check_progress(await self._request("POST", "/images/create", query, archive))

    async def create(self, name: str, config: Mapping[str, object]) -> str:
        """Returns the container's id."""
        body = json.dumps(config).encode()
        response = await self._request("POST", "/containers/create", {"name": name}, body)
        return msgspec.json.decode(response, type=_Made).id

    async def start(self, container: str) -> None:
        await self._request("POST", f"/containers/{container}/start")

    async def pid(self, container: str) -> int:
        """Of its init process, in the host's pid namespace; 0 if it does not run."""
        response = await self._request("GET", f"/containers/{container}/json")
        return msgspec.json.decode(response, type=_Container).state.pid

    async def remove(self, container: str) -> None:
        """Kills and removes the container; returns when it is gone.

        Engines sometimes refuse while the container exits by itself, so this retries.
        """
        query = {"force": "true", "v": "true"}
        deadline = time.monotonic() + _REMOVE_SECONDS
        while True:
            try:
                await self._request("DELETE", f"/containers/{container}", query)
            except EngineError as error:
                if error.status == _NOT_FOUND:
                    return
                if time.monotonic() > deadline:
                    raise
            else:
                if time.monotonic() > deadline:
                    raise EngineError(f"{container} still exists after it was removed")
            await asyncio.sleep(_RETRY_SECONDS)

    async def labelled(self, label: str) -> list[str]:
        """Containers with this label, running or not."""
        query = {"all": "true", "filters": json.dumps({"label": [label]})}
        response = await self._request("GET", "/containers/json", query)
        return [made.id for made in msgspec.json.decode(response, type=list[_Made])]

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        seconds: float = _REQUEST_SECONDS,
    ) -> bytes:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with (
                self._session(seconds) as session,
                session.request(
                    method, f"http://engine{path}", params=query, data=body, headers=headers
                ) as response,
            ):
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EngineError(f"{self.socket} does not answer: {error!r}") from error
        if response.status >= 400:
            raise EngineError(error_text(content), response.status)
        return content

    @asynccontextmanager
    async def _session(self, seconds: float) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.UnixConnector(path=str(self.socket))
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            yield session


def _split(name: str) -> tuple[str, str]:
    """Splits into repository and tag or digest."""
    if "@" in name:
        repository, _, digest = name.partition("@")
        return repository, digest
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "latest")


def error_text(response: bytes) -> str:
    """The engine's error message."""
    try:
        body = json.loads(response)
        return str(body.get("message") or body.get("cause") or body)
    except (ValueError, AttributeError):
        return response.decode(errors="replace").strip() or "the engine gave no reason"


def _check_progress(response: bytes) -> None:
    """Raises EngineError for an error in the JSON lines; the status is 200 in any case."""
    for line in response.splitlines():
        try:
            progress = msgspec.json.decode(line, type=_PullProgress)
        except msgspec.MsgspecError:
            continue
        if progress.error:
            raise EngineError(progress.error)
