"""Real Potluck processes for tests: started, waited for, killed and cleaned up by their own pid."""

import base64
import json
import os
import platform
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import urllib3

from tests.clusters import CLUSTERS
from tests.control_groups import remove_groups
from tests.databases import SHARED
from tests.log_scanner import SCANNER
from tests.preloaded import PreloadedProcess, can_preload
from tests.wallets import Wallet

T = TypeVar("T")
_ENCRYPTION_KEY = "5e" * 32
SCANNER.plant("the encryption key", _ENCRYPTION_KEY)

# Times in tenths of seconds, so that a test sees in a moment what takes minutes in production.
FAST = {
    "POTLUCK_LEASE_SECONDS": "3",
    "POTLUCK_HEARTBEAT_SECONDS": "0.3",
    "POTLUCK_POLL_SECONDS": "2",
    "POTLUCK_FETCH_SECONDS": "3",
    "POTLUCK_EXPIRE_POLL_SECONDS": "0.1",
    "POTLUCK_SCHEDULE_POLL_SECONDS": "0.3",
    "POTLUCK_LEADER_SECONDS": "1.5",
    "POTLUCK_LEADER_RENEW_SECONDS": "0.3",
    "POTLUCK_BACK_OFF_FIRST_SECONDS": "0.1",
    "POTLUCK_SILENT_AFTER_SECONDS": "2",
    # Nothing of a test leaves this machine, so webhooks stay here too.
    "POTLUCK_WEBHOOK_ALLOW": "127.0.0.1",
    # The same whether or not the dashboard was built here.
    "POTLUCK_DASHBOARD_DIRECTORY": "/nonexistent",
}
# The same for a provider; the processor is device enough.
FAST_PROVIDER = {
    "POTLUCK_PROVIDER_HEARTBEAT_SECONDS": "0.1",
    "POTLUCK_PROVIDER_POLL_SECONDS": "0.5",
    "POTLUCK_PROVIDER_BACK_OFF_FIRST_SECONDS": "0.01",
    "POTLUCK_PROVIDER_BACK_OFF_LONGEST_SECONDS": "0.1",
    "POTLUCK_PROVIDER_LOG_FLUSH_SECONDS": "0.02",
    "POTLUCK_PROVIDER_OUTCOME_FLUSH_SECONDS": "0.1",
    "POTLUCK_PROVIDER_STOP_GRACE_SECONDS": "2",
    "POTLUCK_PROVIDER_DETECT_SECONDS": "0.05",
}


def potluck(*arguments: str | Path) -> list[str]:
    """The command line of a Potluck command."""
    return [sys.executable, "-m", "potluck", *map(str, arguments)]


def free_port() -> int:
    """One that no other test is given meanwhile: those that ask for any port get higher ones."""
    for port in random.sample(range(15_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("a hundred ports in a row are taken")


def await_true(condition: Callable[[], T], description: str, seconds: float = 30) -> T:
    """The first true answer of `look`; fails by name when there is none in time.

    The longer it takes the less often it looks: what is waited for needs the processor too.
    """
    started = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - started
        assert waited < seconds, f"waited {seconds} s in vain: {description}"
        time.sleep(min(max(0.02, 0.05 * waited), 0.2))


class PotluckProcess:
    """`python -m potluck …` with its first JSON line read, ended with the block."""

    prefix: tuple[str, ...] = ()  # a command that becomes ours

    def __init__(self, arguments: Sequence[str], environment: dict[str, str], log: Path) -> None:
        self._log = log
        SCANNER.watch(log)
        given, variables = [*arguments, "--json"], {**os.environ, **FAST, **environment}
        with log.open("ab") as stderr:
            if self.prefix or not can_preload(environment):
                self.process = subprocess.Popen(
                    [*self.prefix, *potluck(*given)],
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                )
            else:
                self.process = PreloadedProcess(given, variables, stderr)
        try:
            self.first = self._first_line()
        except BaseException:
            self.kill()
            raise

    def _first_line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended before it was ready: {self._log.read_text()[-2000:]}"
        first: dict[str, Any] = json.loads(line)
        assert "error" not in first, first
        return first

    def kill(self) -> None:
        """As the power cut does."""
        self.process.kill()
        self._close()

    def stop(self) -> int:
        """As a person does; answers the exit status."""
        self.process.send_signal(signal.SIGTERM)
        self._close()
        return self.process.returncode

    def wait(self) -> int:
        """Until it has ended by itself, or by an earlier signal; answers the exit status."""
        self._close()
        return self.process.returncode

    def _close(self) -> None:
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.stop()


class ServerProcess(PotluckProcess):
    """A server whose operator is a wallet of the tests.

    Its database is one of the PostgreSQL that all tests share, and the same for the same directory.
    """

    wallet = Wallet("operator")
    has_own_postgres = False

    def __init__(self, directory: Path, port: int = 0, **environment: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        arguments = ["server", "--port", str(port or free_port()), "--data-dir", str(directory)]
        own_settings = {"POTLUCK_OPERATOR": self.wallet.address}
        if self.has_own_postgres:
            CLUSTERS.put(directory / "server")
        elif "POTLUCK_DATABASE_URL" not in environment:
            own_settings["POTLUCK_DATABASE_URL"] = SHARED.of(directory)
        elif "POTLUCK_ENCRYPTION_KEY_FILE" not in environment:
            # Instances that share a database share its key, and a data directory need not.
            own_settings["POTLUCK_ENCRYPTION_KEY"] = _ENCRYPTION_KEY
        super().__init__(arguments, {**own_settings, **environment}, directory / "server.log")
        self.url: str = self.first["url"]

    @cached_property
    def token(self) -> str:
        """Of the operator's session."""
        return self.sign_in(self.wallet)

    def sign_in(self, wallet: Wallet, invite: str | None = None) -> str:
        token: str = wallet.sign_in(self.url, invite)["access_token"]
        return token

    def node(self, name: str = "a node key", wallet: Wallet | None = None) -> "Api":
        """With a node key that the wallet (the operator's, if none is named) has authorised."""
        owner, key = wallet or self.wallet, Wallet(name)
        token = self.token if wallet is None else self.sign_in(wallet)
        authorised = owner.authorise(self.url, token, key)
        assert "id" in authorised, authorised
        return self.client(key.sign_in_as_node(self.url))

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def client(self, token: str | None = None) -> "Api":
        return Api(self.url, self.token if token is None else token)


class WholeServerProcess(ServerProcess):
    """Starts its PostgreSQL too, as for somebody who names none; that costs half a second."""

    has_own_postgres = True


class ProviderProcess(PotluckProcess):
    def __init__(self, directory: Path, server: ServerProcess, **environment: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        arguments = ["provide", server.url, "--data-dir", str(directory)]
        wallet = {"POTLUCK_WALLET_KEY": server.wallet.key.hex()}
        self._sandbox = directory / "provider" / "sandbox"
        self._name = environment.get("POTLUCK_PROVIDER_NAME", platform.node())
        super().__init__(arguments, {**wallet, **environment}, directory / "provider.log")
        self.node_id: str = self.first["node_id"]

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        if self.process.returncode == -signal.SIGKILL:
            remove_groups(self._sandbox, self._name)


class Api:
    """Plain HTTP, so that a test can also say what a well-behaved client never would."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._pool = urllib3.PoolManager(retries=False, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> urllib3.BaseHTTPResponse:
        kind = {"Content-Type": "application/json"} if body is not None else {}
        header_names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._pool.request(
            method, self.url + path, body=body, headers={**self._headers, **kind, **header_names}
        )

    def get(self, path: str) -> Any:
        return self.call("GET", path).json()

    def post(self, path: str, value: Any, **headers: str) -> Any:
        return self.call("POST", path, json.dumps(value).encode(), **headers).json()

    def put(self, path: str, value: Any) -> Any:
        return self.call("PUT", path, json.dumps(value).encode()).json()

    def submit(self, source: str, **changes: Any) -> str:
        spec = {"kind": "script", "filename": "script.py", "source": source}
        task_view = self.post("/v1/tasks", {"spec": spec, **changes})
        assert "id" in task_view, task_view
        task_id: str = task_view["id"]
        return task_id

    def task(self, task_id: str) -> Any:
        return self.get(f"/v1/tasks/{task_id}")

    def finished(self, task_id: str, seconds: float = 60) -> Any:
        """The task once it has reached a final state."""

        def look() -> Any:
            task = self.task(task_id)  # or why there is no answer just now
            return task if task.get("finished_at") else None

        return await_true(look, f"{task_id} finishes", seconds)

    def log(self, task_id: str) -> str:
        pieces = self.get(f"/v1/tasks/{task_id}/logs")["pieces"]
        data = b"".join(base64.b64decode(piece["data"]) for piece in pieces)
        return data.decode("utf-8", "replace")

    def close(self) -> None:
        self._pool.clear()


@contextmanager
def frozen(*process_ids: int) -> Iterator[None]:
    """They hang until the end of the block: nothing that they have is closed."""
    for process_id in process_ids:
        os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        for process_id in process_ids:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGCONT)


def postgres_processes(directory: Path) -> list[int]:
    """Those of the PostgreSQL that a server with this data directory has started."""
    (pid_file,) = (directory / "server" / "postgres").rglob("postmaster.pid")
    postmaster = int(pid_file.read_text().split()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]
