"""One pool for each file, with Prometheus, Alertmanager and a receiver of alerts."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.deploy.monitored_pool import Watched
from tests.deploy.monitoring import Alertmanager, Prometheus, Receiver, need_prometheus
from tests.processes import free_port


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    need_prometheus()
    directory, ports = tmp_path_factory.mktemp("watched"), (free_port(), free_port(), free_port())
    with ExitStack() as stack:
        receiver = stack.enter_context(closing(Receiver()))
        manager = stack.enter_context(closing(Alertmanager(directory / "manager", receiver)))
        pool = Watched(directory, ports, receiver)
        stack.callback(pool.close)
        pool.start_server()
        pool.start_provider()
        targets = {
            "potluck": [f"127.0.0.1:{pool.server_port}"],
            "potluck-provider": [f"127.0.0.1:{pool.provider_port}"],
            "potluck-tls": [f"127.0.0.1:{pool.tls_port}"],
        }
        watcher = Prometheus(directory / "prometheus", manager, targets)
        pool.prometheus = stack.enter_context(closing(watcher))
        yield pool
