"""Starts the packet relay of a sandbox, and ends it."""

import asyncio
import contextlib
import os
import shutil
import sys
from pathlib import Path

from potluck.provider.egress.raw.tap import TUN

_ROUTES, _ANYWHERE = Path("/proc/net/route"), "00000000"
_START_SECONDS = 20.0
_END_SECONDS = 5.0
_MODULE = "potluck.provider.egress.raw.packet_relay"


def why_no_relay() -> str | None:
    """Why no relay can be started on this machine, as far as can be said without starting one."""
    if shutil.which("passt") is None:
        return "passt is not installed"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"this user may not open {TUN}"
    if not any(line.split()[1] == _ANYWHERE for line in _ROUTES.read_text().splitlines()):
        return "this machine has no default route for IPv4"
    return None


class RelayProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def end(self) -> None:
        """Returns when it has ended, and passt with it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


async def start_relay(socket: Path, pid: int) -> RelayProcess:
    """Connects the network of the process with the service at `socket`; raises OSError."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", _MODULE, str(socket), str(pid)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None
    relay = RelayProcess(process)
    try:
        async with asyncio.timeout(_START_SECONDS):
            if await process.stdout.readline() == b"ready\n":
                return relay
            problem = (await process.stderr.read()).decode(errors="replace").strip()
        raise OSError(f"the raw network could not be set up: {problem.rpartition(chr(10))[2]}")
    except BaseException:
        await relay.end()
        raise
