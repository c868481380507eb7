"""A pool of one server and one provider, watched by Prometheus and Alertmanager."""

from pathlib import Path

from tests.databases import SHARED
from tests.deploy.monitoring import Prometheus, Receiver
from tests.processes import FAST_PROVIDER, PotluckProcess, ProviderProcess, ServerProcess


class Watched:
    """A pool of one server and one provider, and those who watch it."""

    server: ServerProcess
    provider: ProviderProcess
    prometheus: Prometheus

    def __init__(self, directory: Path, ports: tuple[int, int, int], receiver: Receiver) -> None:
        self.server_port, self.provider_port, self.tls_port = ports
        self.receiver = receiver
        self._directory = directory
        self._running: dict[str, PotluckProcess] = {}

    @property
    def database_url(self) -> str:
        return SHARED.of(self._directory / "server")

    def start_server(self, **changes: str) -> None:
        settings = {"POTLUCK_METRICS_SECONDS": "0.3", "POTLUCK_WATCH_SECONDS": "0.5", **changes}
        self.server = ServerProcess(self._directory / "server", self.server_port, **settings)
        self._running["server"] = self.server

    def start_provider(self) -> None:
        port = {"POTLUCK_PROVIDER_METRICS_PORT": str(self.provider_port)}
        self.provider = ProviderProcess(
            self._directory / "provider", self.server, **FAST_PROVIDER, **port
        )
        self._running["provider"] = self.provider

    def start_tls_server(self, certificate: Path, key: Path) -> ServerProcess:
        """A pool of its own, with these files."""
        files = {"POTLUCK_TLS_CERT": str(certificate), "POTLUCK_TLS_KEY": str(key)}
        server = ServerProcess(self._directory / "tls", self.tls_port, **files)
        self._running["tls"] = server
        return server

    def close(self) -> None:
        for process in reversed(self._running.values()):
            with process:
                pass
