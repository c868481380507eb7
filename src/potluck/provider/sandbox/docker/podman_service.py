"""Podman's API for a user who has Podman and no socket of an engine.

Podman has no daemon. So its API is started like systemd starts a service: this process listens on a
socket, and starts `podman system service` with it when the first connection arrives. The service
ends by itself when it is idle, and with this process however that ends.
"""

import asyncio
import os
import shutil
import signal
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary, finalize

import structlog

from potluck.local.child_process import end_with_parent, environment_without_secrets
from potluck.provider.egress.serving_socket import remove_leftover_directories, socket_prefix
from potluck.provider.one_line import one_line

log = structlog.get_logger()

IDLE_SECONDS = 30
_BACKLOG = 64
_ERROR_CHARACTERS = 500
# As for a service of systemd: the socket is descriptor 3, and the number of the process is known.
_START = 'exec 3<&"$1"; shift; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'


def find_podman() -> str | None:
    """The program, if this user is an ordinary one: then its containers need no other set-up."""
    return None if os.geteuid() == 0 else shutil.which("podman")


class PodmanService:
    """Listens from the start; `parent` tells its sockets from those of other providers.

    The event loop refers to it until that is closed.
    """

    def __init__(self, podman: str, parent: Path, idle_seconds: int = IDLE_SECONDS) -> None:
        remove_leftover_directories(parent)
        # The path of a socket is limited in length, so it is not below `parent`.
        directory = tempfile.mkdtemp(prefix=socket_prefix(parent))
        self.socket = Path(directory) / "podman.sock"
        self._command = (podman, "system", "service", f"--time={idle_seconds}")
        self._listener = socket.socket(socket.AF_UNIX)
        finalize(self, _close, self._listener, directory)
        self._listener.bind(str(self.socket))
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._serving: asyncio.Task[None] | None = None
        self._await_connection()

    @property
    def is_serving(self) -> bool:
        """Whether Podman runs now."""
        return self._serving is not None and not self._serving.done()

    def _await_connection(self) -> None:
        asyncio.get_running_loop().add_reader(self._listener, self._start)

    def _start(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._serving = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            await self._run_podman()
        except OSError as error:  # such as too many processes: later it may start
            log.warning("podman_failed", error=one_line(str(error)))
            self._refuse_waiting()
        self._await_connection()

    async def _run_podman(self) -> None:
        descriptor = self._listener.fileno()
        # A file: processes that Podman leaves for its containers would keep a pipe open.
        errors = self.socket.with_name("errors")
        with errors.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *("sh", "-c", _START, "sh", str(descriptor), *self._command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=file,
                env=environment_without_secrets(),
                pass_fds=(descriptor,),
                preexec_fn=end_with_parent(signal.SIGTERM),
            )
        if await process.wait():
            text = errors.read_text(errors="replace")[-_ERROR_CHARACTERS:]
            log.warning("podman_failed", error=one_line(text))
            self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        """Otherwise their clients would wait, and Podman would be started again for them."""
        with suppress(BlockingIOError):
            while True:
                connection, _ = self._listener.accept()
                connection.close()


def _close(listener: socket.socket, directory: str) -> None:
    listener.close()
    shutil.rmtree(directory, ignore_errors=True)


_services: WeakValueDictionary[Path, PodmanService] = WeakValueDictionary()


def serve_podman(podman: str, parent: Path) -> PodmanService:
    """One service for each parent: its socket stays in use if another sandbox does not work."""
    service = _services.get(parent)
    if service is None:
        service = _services[parent] = PodmanService(podman, parent)
    return service
