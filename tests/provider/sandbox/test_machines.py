"""The sandbox on machines that differ: another Python, another bwrap, no control groups."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.model.task import EndReason
from potluck.provider.sandbox.bubblewrap.root_filesystem import find_pythons
from tests.provider.sandbox.conftest import hosting, nobody_for
from tests.provider.sandbox.test_limit_reasons import EATS_MEMORY, FORKS_FOREVER

PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
WITHOUT_GROUPS = ("unshare", "-m", "sh", "-c", 'umount -R /sys/fs/cgroup && exec "$@"', "sh")


@pytest.fixture
def home(as_root: bool) -> Iterator[Path]:
    """A home directory that nobody else may enter."""
    with tempfile.TemporaryDirectory(prefix="potluck-home-") as name:
        home = Path(name)
        yield home


def test_a_python_in_a_home_directory_works_and_does_not_show_it(as_root: bool, home: Path) -> None:
    prefix = _python_in(home, as_root)
    with hosting(as_root, prefix=prefix) as host:
        result = host.python(
            "import sys, os, json; print(sys.executable, sys.prefix, os.listdir('/opt/python'), "
            f"os.path.exists({str(home)!r}), os.path.exists('/home'))"
        )
    expected = f"/opt/python/bin/{VERSION} /opt/python ['lib', 'bin'] False False\n"
    assert result.stdout.decode() in {expected, expected.replace("'lib', 'bin'", "'bin', 'lib'")}


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_pyenvs_python_works_with_its_own_library(minor: int) -> None:
    """It is a shared one; the system may have one of the same name, and of another patch level."""
    prefix = next(PYENV.glob(f"3.{minor}.*[0-9]"), None)
    if prefix is None:
        pytest.skip(f"there is no Python 3.{minor} of pyenv here")
    version = prefix.name
    with hosting(os.geteuid() == 0, prefix=prefix) as host:
        source = "import sys, ssl, sqlite3; print(sys.version.split()[0], sys.prefix, flush=True)"
        result = host.python(f"{source}; import subprocess; subprocess.run([sys.executable, '-V'])")
    assert result.stdout.decode() == f"{version} /opt/python\nPython {version}\n", result.stderr


def test_an_interpreter_with_the_library_of_another_does_not_pass_the_trial(tmp_path: Path) -> None:
    library = tmp_path / "libpython3.so"
    library.write_bytes(b"x")
    maps_it = f"import mmap; f = open({str(library)!r}, 'r+b'); held = mmap.mmap(f.fileno(), 1)"
    trial = find_pythons(tmp_path)[0].trial
    for source, status in ((trial, 0), (f"{maps_it}\n{trial}", 1)):
        process = subprocess.run(
            [sys.executable, "-I", "-c", source], capture_output=True, text=True
        )
        assert process.returncode == status, process.stderr
    assert str(library) in process.stderr


def test_a_shared_library_elsewhere_is_searched_for_only_if_that_is_needed(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libpython3.12.so.1.0").touch()
    plain, with_path = find_pythons(tmp_path)
    assert plain.environment == {}
    assert with_path.environment == {"LD_LIBRARY_PATH": "/opt/python/lib"}


def test_without_the_systems_bwrap_the_wheels_is_taken(as_root: bool) -> None:
    with hosting(as_root, path="/nowhere") as host:
        assert host.run().ended is not None
        assert host.report.driver == "bwrap"


def test_a_bwrap_that_does_not_work_is_passed_over(as_root: bool, home: Path) -> None:
    broken = home / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1")
    for path in (home, broken):
        path.chmod(0o755)
    with hosting(as_root, path=f"{home}:/usr/bin") as host:
        outcome = host.run().ended
    assert outcome is not None
    assert outcome.reason is EndReason.COMPLETED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take the control groups away")
def test_root_without_control_groups_still_has_walls() -> None:
    with hosting(True, wrapper=WITHOUT_GROUPS) as host:
        assert (host.report.memory, host.report.cpu) == ("watchdog", "none")
        assert host.report.processes == "rlimits and watchdog"
        for source, reason in (
            (EATS_MEMORY, EndReason.MEMORY_LIMIT),
            (FORKS_FOREVER, EndReason.PROCESS_LIMIT),
        ):
            outcome = host.python(source).ended
            assert outcome is not None
            assert outcome.reason is reason


def _python_in(home: Path, as_root: bool) -> Path:
    """This Python as if it had been installed there; its modules stay in /usr."""
    base = Path(sys.base_prefix)
    if not base.is_relative_to("/usr"):
        return base
    (home / "bin").mkdir()
    (home / "lib").mkdir()
    program = home / "bin" / VERSION
    program.write_bytes((base / "bin" / VERSION).read_bytes())
    program.chmod(0o755)
    (home / "lib" / VERSION).symlink_to(base / "lib" / VERSION)
    nobody_uid = nobody_for(as_root)
    if nobody_uid is not None:
        os.chown(home, nobody_uid, nobody_uid)
    assert home.stat().st_mode & 0o077 == 0
    return home


def test_packages_of_an_interpreter_elsewhere_are_known_by_their_place_inside(
    tmp_path: Path,
) -> None:
    (tmp_path / "lib" / "python3.12" / "site-packages" / "numpy").mkdir(parents=True)
    (python,) = find_pythons(tmp_path)
    assert python.packages[-1] == "/opt/python/lib/python3.12/site-packages"
