"""A release: the same commit is the same bytes."""

import json
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.architecture.repository_files import ROOT
from tests.deploy.shipped_config import DEPLOY


def make_release(directory: Path, umask: int) -> dict[str, bytes]:
    """Into an empty directory; where and with which rights makes no difference."""
    process = subprocess.run(
        [ROOT / "scripts" / "release.sh", directory],
        preexec_fn=lambda: os.umask(umask) and None,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.long
def test_two_releases_of_one_commit_are_identical(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git repository")
    first = make_release(tmp_path / "one", 0o022)
    assert first == make_release(tmp_path / "two", 0o077)
    check_parts(tmp_path / "one")


def check_parts(directory: Path) -> None:
    sums = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=directory)
    assert sums.returncode == 0
    (wheel,) = directory.glob("*.whl")
    expected_files = {"potluck/server/assemble.py", "potluck/server/pages/dashboard/manifest.json"}
    assert expected_files <= set(zipfile.ZipFile(wheel).namelist())
    (sdist,) = directory.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [name.split("/", 1)[-1] for name in archive.getnames()]
    assert {"pyproject.toml", "deploy/Dockerfile", "locks/run.txt"} <= {*names}
    (parts,) = directory.glob("*.cdx.json")
    bill_of_materials = json.loads(parts.read_text())
    assert bill_of_materials["bomFormat"] == "CycloneDX"
    components = {component["name"]: component for component in bill_of_materials["components"]}
    assert {"asyncpg", "litestar", "redis"} <= {*components}
    assert components["asyncpg"]["licenses"]


def test_build_dependencies_are_pinned() -> None:
    """The build takes no tool that the lock does not name."""
    script = (ROOT / "scripts" / "release.sh").read_text()
    assert "--no-isolation" in script and "SOURCE_DATE_EPOCH" in script
    assert "hatchling==" in (ROOT / "locks" / "release.txt").read_text()
    assert "--require-hashes -r /build/run.txt" in (DEPLOY / "Dockerfile").read_text()
