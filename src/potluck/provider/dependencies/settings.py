"""The limits that the owner of a node sets for installations."""

from msgspec import Struct

from potluck.model.task import GIB, MIB

CACHE_BYTES = 40 * GIB


class PrepareSettings(Struct, frozen=True):
    """The defaults fit large packages (a GPU framework has 3 GiB) on an ordinary machine."""

    allow_builds: bool = False  # of source distributions; their code runs inside the sandbox
    memory_bytes: int = GIB
    work_bytes: int = 256 * MIB
    processes: int = 256
    cores: int = 2
    environment_bytes: int = 20 * GIB
    environment_files: int = 500_000
    shelf_bytes: int = CACHE_BYTES  # of all cached environments
    download_bytes: int = 20 * GIB
    lock_seconds: float = 3600.0  # how long a resolution is cached
    watch_seconds: float = 0.5
