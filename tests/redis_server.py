"""A real redis-server on a Unix socket, which a test may kill and start again."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from potluck.local.child_process import end_with_parent


class RedisServer:
    """Keeps nothing on the disk: after `kill` and `start` it is empty, at the same address."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="potluck-redis-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{self._directory}/redis.sock"

    def start(self) -> None:
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, preexec_fn=end_with_parent(signal.SIGTERM)
            )
        deadline = time.monotonic() + 30
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, self._log()
            time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It accepts connections and answers nobody."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def flush(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._directory)

    def _command(self) -> list[str]:
        socket, directory = str(self._directory / "redis.sock"), str(self._directory)
        location = ["--port", "0", "--unixsocket", socket, "--dir", directory]
        return ["redis-server", *location, "--save", "", "--appendonly", "no"]

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def _log(self) -> str:
        return (self._directory / "log").read_text()
