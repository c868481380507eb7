"""Control groups of version 2, against a directory that stands for the kernel's.

The files are what the kernel's documentation names; that the limits hold is shown with version 1,
and with version 2 on machines that delegate one.
"""

import os
from pathlib import Path

import pytest

from potluck.model.task import MIB
from potluck.provider.sandbox.cgroup import Group, GroupLimits
from potluck.provider.sandbox.hierarchy import Hierarchy, enable_controllers
from potluck.provider.sandbox.inspect_run import MemoryUse

LIMITED = ("memory.max", "memory.swap.max", "pids.max", "cpu.max")


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    return tmp_path


def test_the_controllers_that_matter_are_passed_down(parent: Path) -> None:
    enable_controllers(parent)
    assert (parent / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_a_shared_control_group_is_left_unchanged(parent: Path) -> None:
    (parent / "cgroup.procs").write_text(f"1\n{os.getpid()}\n")
    (parent / "cgroup.subtree_control").unlink()
    (parent / "cgroup.subtree_control").mkdir()  # so that writing fails
    with pytest.raises(PermissionError):
        enable_controllers(parent)
    assert not (parent / "potluck-provider").exists()


def test_limits_and_members_are_written_in_the_words_of_version_2(parent: Path) -> None:
    group, directory = _group(parent)
    directory.mkdir()
    for name in LIMITED:
        (directory / name).touch()
    group.limit(GroupLimits(memory_bytes=300 * MIB, processes=33, cores=2))
    group.add(4711)
    assert [(directory / name).read_text() for name in LIMITED] == [
        str(300 * MIB),
        "0",
        "33",
        "200000 100000",
    ]
    assert (directory / "cgroup.procs").read_text() == "4711"


def test_usage_is_read_from_cgroup_version_2(parent: Path) -> None:
    group, directory = _group(parent)
    directory.mkdir()
    (directory / "memory.stat").write_text("anon 100\nfile 70\nshmem 30\n")
    (directory / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 1\n")
    (directory / "memory.peak").write_text("4096\n")
    (directory / "pids.events").write_text("max 2\n")
    (directory / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    assert group.memory_bytes() == MemoryUse(100, 30)
    assert group.was_out_of_memory()
    assert group.refused_a_process()
    assert (group.memory_peak_bytes(), group.cpu_seconds()) == (4096, 1.5)


def test_files_at_work_are_disk_and_the_rest_is_memory() -> None:
    assert MemoryUse(own_bytes=100, shared_bytes=30).beyond(work_bytes=20) == 110
    assert MemoryUse(own_bytes=100, shared_bytes=30).beyond(work_bytes=50) == 100


def _group(parent: Path) -> tuple[Group, Path]:
    hierarchy = Hierarchy(2, dict.fromkeys(("memory", "pids", "cpu"), parent), "potluck-x-")
    return Group(hierarchy, "run"), parent / "potluck-x-run"
