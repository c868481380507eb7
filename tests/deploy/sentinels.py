"""A Redis with a replica, and three Sentinels that promote it."""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from potluck.local.child_process import end_with_parent
from tests.conftest import need_redis
from tests.processes import await_true, free_port

NAME = "potluck"
# As `docs/scaling.md` has it, with shorter times.
_SENTINEL = """
sentinel monitor {name} 127.0.0.1 {primary} 2
sentinel down-after-milliseconds {name} 500
sentinel failover-timeout {name} 3000
sentinel parallel-syncs {name} 1
"""


class WatchedRedis:
    """Two Redis servers that three Sentinels watch; the first one is the primary."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self.ports = (free_port(), free_port())
        self._sentinels = tuple(free_port() for _ in range(3))
        self._servers = [self._server(self.ports[0]), self._server(self.ports[1])]
        self._client(self.ports[1]).replicaof("127.0.0.1", self.ports[0])
        await_true(lambda: self._is_replicated(), "the replica follows")
        for port in self._sentinels:
            self._sentinel(port)
        await_true(lambda: all(map(self._knows_all, self._sentinels)), "the Sentinels know all")
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._sentinels)
        self.url = f"redis+sentinel://{hosts}/{NAME}/0"

    def kill_primary(self) -> None:
        self._servers[0].kill()
        self._servers[0].wait()

    def primary_port(self) -> int:
        """Which one the Sentinels call the primary."""
        place: Any = self._client(self._sentinels[0]).sentinel_get_master_addr_by_name(NAME)
        return int(place[1])

    def _is_replicated(self) -> bool:
        state: dict[str, str] = self._client(self.ports[1]).info("replication")
        return state["master_link_status"] == "up"

    def _knows_all(self, port: int) -> bool:
        state: Any = self._client(port).sentinel_master(NAME)
        return (state["num-slaves"], state["num-other-sentinels"]) == (1, 2)

    def _server(self, port: int) -> subprocess.Popen[bytes]:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        options += ["--repl-diskless-sync-delay", "0"]
        return self._run(port, [*options, "--dir", str(self._directory)])

    def _sentinel(self, port: int) -> None:
        config = self._directory / f"sentinel-{port}.conf"
        watched = _SENTINEL.format(name=NAME, primary=self.ports[0])
        config.write_text(f"port {port}\nbind 127.0.0.1\ndir {self._directory}\n{watched}")
        self._run(port, [str(config), "--sentinel"])

    def _run(self, port: int, options: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self._directory / f"{port}.log").open("wb") as log:
            process = subprocess.Popen(
                ["redis-server", *options],
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent(signal.SIGTERM),
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        await_true(lambda: self._answers(port), f"port {port} answers")
        return process

    def _answers(self, port: int) -> bool:
        try:
            return bool(self._client(port).ping())
        except redis.ConnectionError:
            return False

    def _client(self, port: int) -> redis.Redis:
        client = redis.Redis(port=port, decode_responses=True, socket_timeout=5)
        self._stack.callback(client.close)
        return client


@contextmanager
def watched_redis(directory: Path) -> Iterator[WatchedRedis]:
    need_redis()
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        yield WatchedRedis(directory, stack)
