"""`potluck provide` as a real process, listened to and always ended."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from potluck.provider.server.node_key import Authorised, ensure_key, save_delegation
from potluck.wire.signing.sign_in_answer import origin_of
from tests.log_scanner import SCANNER
from tests.processes import FAST_PROVIDER, potluck

PATIENCE_SECONDS = 30.0


class HeardProvider:
    """What it has said so far, and the ways to end it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[dict[str, Any]] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    async def event(self, name: str) -> dict[str, Any]:
        """The next event of this name; what is said before it is kept in `said`."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while line := await self._process.stdout.readline():
                self.said.append(msgspec.json.decode(line))
                if self.said[-1].get("event") == name:
                    return self.said[-1]
        raise AssertionError(f"it ended without {name}: {self.said} {await self._errors()}")

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Sends the signal and returns the exit status."""
        self._process.send_signal(number)
        return await self.exit_status()

    def close_stdout(self) -> None:
        """As when the program that reads it ends."""
        transport = self._process._transport  # type: ignore[attr-defined]
        transport.get_pipe_transport(1).close()

    async def wait(self) -> int:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._process.wait()

    async def exit_status(self) -> int:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            remaining_output = await self._process.stdout.read()
            self.said += [msgspec.json.decode(line) for line in remaining_output.splitlines()]
            return await self._process.wait()

    async def _errors(self) -> str:
        assert self._process.stderr is not None
        return (await self._process.stderr.read()).decode()


@asynccontextmanager
async def provider_process(
    url: str, directory: Path, *options: str
) -> AsyncIterator[HeardProvider]:
    """A wallet has let its key work for it; that wallet is nowhere near."""
    key, ends = ensure_key(directory), int(time.time()) + 30 * 86_400
    save_delegation(directory, Authorised(origin_of(url), key, int(time.time()), ends))
    arguments = ("provide", url, "--data-dir", str(directory), "--json", *options)
    process = await asyncio.create_subprocess_exec(
        *potluck(*arguments),
        env=os.environ | FAST_PROVIDER | {"POTLUCK_CONFIG_DIR": "/nonexistent"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield HeardProvider(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        _, logged = await process.communicate()
        assert not SCANNER.find(logged.decode("utf-8", "replace")), "a secret is in its log"
