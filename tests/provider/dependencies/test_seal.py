"""What a sandbox left behind is made ours, or refused."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from potluck.provider.dependencies.directory_size import measure
from potluck.provider.dependencies.outcome import PrepareFailed
from potluck.provider.dependencies.seal import seal
from potluck.provider.dependencies.staging import remove_trees

PYTHON = frozenset({"/usr/bin/python3"})


def test_everything_is_ours_readable_and_unchangeable_for_others(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir(mode=0o777)
    (tmp_path / "bin/tool").write_text("x")
    (tmp_path / "bin/tool").chmod(0o777)
    (tmp_path / "secretive").write_text("x")
    (tmp_path / "secretive").chmod(0o600)
    (tmp_path / "bin/python").symlink_to("/usr/bin/python3")
    (tmp_path / "lib64").symlink_to("bin")
    if os.geteuid() == 0:
        os.chown(tmp_path / "bin/tool", 12345, 12345)
    size = seal(tmp_path, PYTHON)
    assert size.files == 5
    assert (tmp_path / "bin/tool").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "secretive").stat().st_mode & 0o7777 == 0o644
    assert (tmp_path / "bin/tool").stat().st_uid == os.geteuid()


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("/etc/passwd"),
        lambda path: path.symlink_to("../outside"),
        lambda path: path.symlink_to("/environment/../etc"),
        lambda path: path.symlink_to("/usr/bin/python3/../../../etc"),
        lambda path: os.mkfifo(path),
        lambda path: (path.touch(), path.chmod(0o4755)),
        lambda path: (path.touch(), path.chmod(0o2755)),
    ],
)
def test_entries_that_could_reach_outside_are_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "odd")
    with pytest.raises(PrepareFailed, match="The environment contains 'odd'"):
        seal(tmp_path, PYTHON)


def test_a_link_is_followed_as_the_kernel_does_it(tmp_path: Path) -> None:
    """Read as text, `inner/../../etc` stays inside; but `inner` leads up to `a`."""
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/c/inner").symlink_to("../..")
    (tmp_path / "odd").symlink_to("a/b/c/inner/../../etc/passwd")
    assert (tmp_path / "odd").readlink() == Path("a/b/c/inner/../../etc/passwd")
    with pytest.raises(PrepareFailed, match="'odd', a link that leads out of it"):
        seal(tmp_path, PYTHON)


@pytest.mark.parametrize(
    "target", ["a/b/../c", "/environment/a/b", "loop-not-there", "a/up/a/b", "python", "."]
)
def test_links_to_the_inside_and_to_the_interpreter_are_kept(tmp_path: Path, target: str) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "python").symlink_to("/usr/bin/python3")
    (tmp_path / "kept").symlink_to(target)
    seal(tmp_path, PYTHON)


@pytest.mark.parametrize("target", ["odd", "python/../../etc", "a/up/.."])
def test_links_that_lead_nowhere_good_are_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "python").symlink_to("/usr/bin/python3")
    (tmp_path / "odd").symlink_to(target)
    with pytest.raises(PrepareFailed, match="'odd', a link that leads out of it"):
        seal(tmp_path, PYTHON)


def test_space_is_counted_once_for_each_file_and_not_for_holes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100_000))
    (tmp_path / "again").hardlink_to(tmp_path / "file")
    with (tmp_path / "hole").open("wb") as hole:
        hole.truncate(10**12)
    size = measure(tmp_path)
    assert 100_000 <= size.bytes < 200_000
    assert size.files == 3


async def test_a_tree_of_any_depth_is_refused_and_removed(tmp_path: Path) -> None:
    root = tmp_path / "deep"
    root.mkdir()
    _dig(root, 1_200)
    with pytest.raises(PrepareFailed, match="cannot be inspected"):
        measure(root)
    await remove_trees(root)
    assert not root.exists()


def _dig(root: Path, depth: int) -> None:
    """Directories in directories, longer than any path may be."""
    current_fd = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deeper", dir_fd=current_fd)
        deeper = os.open("deeper", os.O_RDONLY, dir_fd=current_fd)
        os.close(current_fd)
        current_fd = deeper
    os.close(current_fd)
