"""Two instances of a server behind a proxy, on one PostgreSQL through PgBouncer, and one Redis."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import urllib3

from potluck.consumer.http.connect import connect_anonymously
from potluck.consumer.identity.sign_in import sign_in
from potluck.consumer.identity.wallet import Wallet as KeyWallet
from tests.deploy.pgbouncer import pgbouncer
from tests.deploy.proxies import Place, new_place
from tests.end_to_end.tcp_proxy import FAR, TcpProxy
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true, free_port

POOL_SIZE = 4
# Health is looked at often, so that a test sees soon what a proxy sees in some seconds.
_BEHIND_PROXY = {
    "POTLUCK_BEHIND_PROXY": "127.0.0.1/32",
    "POTLUCK_REGISTRATION": "open",
    "POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "0",
    "POTLUCK_HEALTH_SECONDS": "0.2",
    "POTLUCK_POLL_SECONDS": "30",
    "POTLUCK_DATABASE_POOLER": "transaction",
}


class Instances:
    """Each can be killed and started again at its port; the second can lose its database."""

    def __init__(self, directory: Path, database_url: str, redis_url: str, pool_size: int) -> None:
        self.database_url = database_url
        self._directory = directory
        self._stack = ExitStack()
        self._provider: ProviderProcess | None = None
        self._ports = (free_port(), free_port())
        place = new_place(directory, (f"127.0.0.1:{self._ports[0]}", f"127.0.0.1:{self._ports[1]}"))
        self.place: Place = place
        self.ca_file = directory / "authority.pem"
        self.ca_file.write_bytes(place.issued.authority_pem)
        (directory / "blobs").mkdir()
        pooled = self._stack.enter_context(
            pgbouncer(directory / "pgbouncer", database_url, pool_size, FAR)
        )
        self.line = self._stack.enter_context(TcpProxy(urlsplit(pooled).port or 0))
        self._databases = (pooled, pooled.replace(FAR, "127.0.0.1"))
        self._shared = {
            **_BEHIND_PROXY,
            "POTLUCK_PUBLIC_URL": place.url,
            "POTLUCK_REDIS_URL": redis_url,
            "POTLUCK_DATABASE_DIRECT_URL": database_url,
            "POTLUCK_BLOBS_URL": f"file://{directory / 'blobs'}",
        }
        self.servers = [self._start(0), self._start(1)]

    def _start(self, number: int) -> ServerProcess:
        return ServerProcess(
            self._directory / f"server-{number}",
            self._ports[number],
            POTLUCK_DATABASE_URL=self._databases[number],
            **self._shared,
        )

    def kill(self, number: int) -> None:
        """As a power cut does."""
        self.servers[number].kill()

    def stop(self, number: int) -> None:
        """As an upgrade does."""
        self.servers[number].stop()

    def start(self, number: int) -> None:
        self.servers[number] = self._start(number)

    def is_ready(self, number: int) -> bool:
        """What one instance says of itself."""
        return self._readiness(number).status == 200

    def instance(self, number: int) -> str:
        return str(self._readiness(number).json()["instance"])

    def _readiness(self, number: int) -> urllib3.BaseHTTPResponse:
        url = f"http://127.0.0.1:{self._ports[number]}/readyz"
        return urllib3.request("GET", url, retries=False, timeout=10)

    def answering(self) -> str | None:
        """The instance that answers the next request to the proxy; None if it is not ready."""
        with urllib3.PoolManager(ca_certs=str(self.ca_file), retries=False, timeout=10) as pool:
            response = pool.request("GET", f"{self.place.url}/readyz")
        return str(response.json()["instance"]) if response.status == 200 else None

    def await_both(self) -> None:
        """Returns when requests to the proxy reach both instances; no session sticks to one."""
        answering: set[str | None] = set()

        def look() -> bool:
            answering.add(self.answering())
            return len(answering - {None}) == 2

        await_true(look, "requests reach both instances")

    def logs(self) -> str:
        """What both instances have logged."""
        return "".join((server.directory / "server.log").read_text() for server in self.servers)

    def sign_in(self) -> str:
        """A token of the operator, got through the proxy once it has found an instance."""
        await_true(lambda: self.answering() is not None, "the proxy reaches an instance")
        wallet = KeyWallet(self.servers[0].wallet.key)
        return sign_in(connect_anonymously(self.place.url, self.ca_file), wallet).access_token

    def need_provider(self) -> None:
        """Starts a provider that reaches the pool through the proxy; the first time only."""
        if self._provider is None:
            variables = {
                "POTLUCK_PROVIDER_POLL_SECONDS": "30",
                "POTLUCK_CA_FILE": str(self.ca_file),
            }
            settings = {**FAST_PROVIDER, **variables}
            self._provider = ProviderProcess(self._directory / "node", self.servers[0], **settings)

    def close(self) -> None:
        if self._provider is not None:
            with self._provider:  # there is no proxy any more that it could say goodbye through
                self._provider.kill()
        for server in self.servers:
            if server.process.returncode is None:
                server.stop()
        self._stack.close()


@contextmanager
def instances(
    directory: Path, database_url: str, redis_url: str, pool_size: int = POOL_SIZE
) -> Iterator[Instances]:
    started = Instances(directory, database_url, redis_url, pool_size)
    try:
        yield started
    finally:
        started.close()
