"""Files that are larger than the node's memory, and what is left of them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from potluck.model.task import GIB, MIB
from tests.end_to_end.killable_pool import Pool, opened
from tests.processes import await_true

WRITE = """
import os
with open('large', 'wb') as file:
    for _ in range({mib}): file.write(bytes(1 << 20))
    os.fsync(file.fileno())
print(os.path.getsize('large') >> 20, flush=True)
"""
STAY = "import time; print('written', flush=True); time.sleep(3)"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Of a node that offers 256 MiB of memory, and more disk."""
    with opened(tmp_path_factory.mktemp("disk"), None, **offering(256 * MIB, GIB)) as pool:
        yield pool


def offering(memory_bytes: int, disk_bytes: int) -> dict[str, str]:
    sizes = {"MEMORY_BYTES": memory_bytes, "DISK_BYTES": disk_bytes}
    return {f"POTLUCK_PROVIDER_{name}": str(size) for name, size in sizes.items()}


def write(pool: Pool, mib: int, more_source: str = "", **requirements: int) -> str:
    source = WRITE.format(mib=mib) + more_source
    spec = {"kind": "script", "filename": "write.py", "source": source}
    return pool.submit(spec, requirements={"memory_bytes": 128 * MIB, **requirements})


def test_a_file_may_be_larger_than_the_memory(pool: Pool) -> None:
    task_id = write(pool, 400, disk_bytes=450 * MIB)
    finished = pool.client.finished(task_id)
    assert finished["state"] == "succeeded", finished
    assert pool.client.log(task_id).startswith("400\n")
    await_true(lambda: not pool.left(), f"nothing is left: {pool.left()}", 10)


def test_the_limit_ends_it(pool: Pool) -> None:
    full = pool.client.finished(write(pool, 100, disk_bytes=50 * MIB))
    assert (full["state"], full["reason"]) == ("failed", "disk_limit"), full
    assert "50 MiB of disk" in full["attempts"][-1]["detail"]
    await_true(lambda: not pool.left(), f"nothing is left: {pool.left()}", 10)


def test_kill_9_leaves_nothing(pool: Pool) -> None:
    kill_while_it_runs(pool, write(pool, 300, STAY, disk_bytes=350 * MIB))


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="as an ordinary user a watchdog limits the disk")
def test_10_gib_on_a_node_that_offers_4_gib_of_memory(tmp_path: Path) -> None:
    with opened(tmp_path, None, **offering(4 * GIB, 12 * GIB)) as pool:
        kill_while_it_runs(pool, write(pool, 10 * 1024, STAY, disk_bytes=11 * GIB), 300)
        full = pool.client.finished(write(pool, 10 * 1024, disk_bytes=9 * GIB))
        assert (full["state"], full["reason"]) == ("failed", "disk_limit"), full
        await_true(lambda: not pool.left(), f"nothing is left: {pool.left()}", 30)


def kill_while_it_runs(pool: Pool, task_id: str, seconds: float = 60) -> None:
    def free() -> int:
        space: Any = os.statvfs(pool.directory)
        return int(space.f_bavail * space.f_frsize)

    await_true(lambda: "written" in pool.client.log(task_id), "the file is written", seconds)
    free_before = free()
    pool.kill()
    await_true(lambda: not pool.survivors(), "all that it had started is dead", 10)
    await_true(lambda: free() > free_before + 100 * MIB, "the disk is free again", 30)
    pool.restart()
    assert pool.client.finished(task_id, seconds)["state"] == "succeeded"
    await_true(lambda: not pool.left(), f"nothing is left: {pool.left()}", 30)
