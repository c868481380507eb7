"""A real pool under load: two machines, accounts that submit, failures, and a backup."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.clusters import CLUSTERS
from tests.databases import SHARED
from tests.end_to_end.load import PRICE, under_load
from tests.processes import (
    FAST_PROVIDER,
    Api,
    ProviderProcess,
    ServerProcess,
    WholeServerProcess,
    await_true,
    potluck,
)

_ENDED = 60
_FAILS = "raise SystemExit(3)"


@contextmanager
def busy_pool() -> Iterator[ServerProcess]:
    with ExitStack() as stack:
        stack.callback(SHARED.close)
        stack.callback(CLUSTERS.close)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(WholeServerProcess(directory))
        for name in ("attic", "garage"):
            variables = {**FAST_PROVIDER, **PRICE, "POTLUCK_PROVIDER_NAME": name}
            variables["POTLUCK_PROVIDER_CORES"] = "4"
            stack.enter_context(ProviderProcess(directory / name, server, **variables))
        load = stack.enter_context(under_load(server, clients=4, first=_ENDED))
        client = Api(server.url, load.acknowledged[0][0])
        for _ in range(3):
            client.submit(_FAILS)
            client.submit("print(1)", requirements={"device_kind": "gpu"})
        backup = potluck("admin", "backup", directory / "backups", "--data-dir", directory)
        subprocess.run(backup, check=True, capture_output=True)
        await_true(lambda: _ended(server) >= _ENDED, "tasks end", 120)
        yield server


def _ended(server: ServerProcess) -> int:
    return sum(group["tasks"] for group in server.client().get("/v1/status")["ended"])
