"""Images for the tests: busybox alone, as an archive that an engine takes in."""

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.provider.sandbox.docker.engine import Started

NAME = "potluck-test-busybox"
BARE = "potluck-test-bare"


def _busybox() -> bytes:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")
    return Path(busybox).read_bytes()


def layer() -> bytes:
    """Busybox with a shell, and nothing else."""
    archive, program = io.BytesIO(), _busybox()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path in ("bin", "data"):
            directory = tarfile.TarInfo(path)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(directory)
        entry = tarfile.TarInfo("bin/busybox")
        entry.size, entry.mode = len(program), 0o755
        tar.addfile(entry, io.BytesIO(program))
        for name in ("sh", "cat", "id", "ls", "env", "true", "sleep", "touch", "wc"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return archive.getvalue()


def changes(engine: str) -> list[str]:
    """What the image says of itself."""
    # Podman takes none with an archive.
    checks = [] if engine == "podman" else ["HEALTHCHECK --interval=1s CMD touch /work/checked"]
    return [
        *checks,
        "ENV PATH=/bin",
        "ENV GREETING=hello",
        "ENV LD_PRELOAD=/nowhere.so",
        "ENV NVIDIA_VISIBLE_DEVICES=all",
        'ENTRYPOINT ["/bin/sh", "-c"]',
        'CMD ["echo $GREETING from the image; exit 5"]',
        "VOLUME /data",
    ]


async def bring(engine: Started) -> None:
    """Puts it into the engine, and beside it one that says nothing of itself."""
    await _import(engine, NAME, changes(engine.name))
    await _import(engine, BARE, [])


async def _import(engine: Started, name: str, image_changes: list[str]) -> None:
    query = [("fromSrc", "-"), ("repo", name), ("tag", "latest")]
    query += [("changes", change) for change in image_changes]
    connector = aiohttp.UnixConnector(path=str(engine.socket))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(
            "http://engine/images/create", params=query, data=io.BytesIO(layer())
        ) as response,
    ):
        assert response.status == 200, await response.text()
        await response.read()


class Registry:
    """A registry with one image in it, as far as an engine asks for it."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        body = layer()
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Cmd": ["/bin/sh", "-c", "echo fetched"], "Env": ["PATH=/bin"]},
                "rootfs": {"type": "layers", "diff_ids": [_digest(body)]},
            }
        ).encode()
        kind = "application/vnd.docker"
        self._manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": f"{kind}.distribution.manifest.v2+json",
                "config": self._held(f"{kind}.container.image.v1+json", config),
                "layers": [self._held(f"{kind}.image.rootfs.diff.tar", body)],
            }
        ).encode()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v2/", self._hello)
        app.router.add_get("/v2/box/manifests/{reference}", self._tell)
        app.router.add_get("/v2/box/blobs/{digest}", self._give)
        return app

    def _held(self, kind: str, content: bytes) -> dict[str, object]:
        self._blobs[_digest(content)] = content
        return {"mediaType": kind, "size": len(content), "digest": _digest(content)}

    async def _hello(self, _: web.Request) -> web.Response:
        return web.json_response({}, headers={"Docker-Distribution-Api-Version": "registry/2.0"})

    async def _tell(self, request: web.Request) -> web.Response:
        if request.match_info["reference"] not in ("latest", _digest(self._manifest)):
            raise web.HTTPNotFound
        return web.Response(
            body=self._manifest,
            content_type="application/vnd.docker.distribution.manifest.v2+json",
            headers={"Docker-Content-Digest": _digest(self._manifest)},
        )

    async def _give(self, request: web.Request) -> web.Response:
        return web.Response(body=self._blobs[request.match_info["digest"]])


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
