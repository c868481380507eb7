"""Whether the disk that environments lie on has room for more, beside what its owner needs."""

import shutil
from pathlib import Path

from potluck.model.task import GIB, EndReason
from potluck.provider.dependencies.outcome import PrepareFailed

_RESERVE_BYTES = 5 * GIB
_RESERVE_SHARE = 10


def missing_bytes(directory: Path) -> int:
    """How much must go before there is room; a tenth of the disk stays free, 5 GiB at most."""
    disk = shutil.disk_usage(directory)
    reserve_bytes = min(disk.total // _RESERVE_SHARE, _RESERVE_BYTES)
    return max(0, reserve_bytes - disk.free)


def check_room(directory: Path) -> None:
    """Raises PrepareFailed; it is not the task's fault."""
    if missing_bytes(directory):
        free_mib = shutil.disk_usage(directory).free // 2**20
        sentence = (
            f"This node has no room for dependencies: only {free_mib:,} MiB of its disk are free."
            " Try another node, or ask this one's owner to free some."
        )
        raise PrepareFailed(EndReason.SANDBOX_FAILED, sentence)
