"""The line that a server prints installs exactly its code into an empty environment, or nothing.

What Potluck depends on is lent to that environment by the tests': nothing comes from elsewhere.
"""

import importlib.util
import shlex
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.server.package_wheel import build_own_wheel
from potluck.wire.package import Package, installers
from tests.cli.command_line import InProcess
from tests.processes import ServerProcess

OWN_MARK = (
    "from potluck.server.package_wheel import build_own_wheel;"
    " print(build_own_wheel({}).package.sha256)"
)


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with an authority of its own, which no installer knows."""
    with ServerProcess(tmp_path_factory.mktemp("private"), POTLUCK_TLS="auto") as server:
        yield server


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return bare_environment(tmp_path / "venv")


def bare_environment(directory: Path) -> Path:
    """The Python of an environment that has all but Potluck."""
    venv.create(directory, with_pip=False)
    (packages,) = directory.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib"))
    return directory / "bin" / "python"


def run_line(line: str, python: Path) -> "subprocess.CompletedProcess[str]":
    """As a shell reads it, but for another environment and without the dependencies."""
    program, *arguments = shlex.split(line)
    if program == "pip":
        command = [sys.executable, "-m", "pip", "--python", str(python), *arguments]
        command += ["--no-deps", "--no-index", "--no-cache-dir", "--no-compile"]
    else:
        assert program == "uv"
        command = [str(Path(sys.executable).with_name("uv")), *arguments, "--python", str(python)]
        command += ["--no-deps", "--no-index", "--no-cache"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def lines(server: ServerProcess) -> dict[str, str]:
    """What the server printed for pip, and the same for uv."""
    has_own_authority = server.url.startswith("https")
    package = build_own_wheel({}).package  # type: ignore[union-attr]
    install_lines = installers(server.url, package, has_own_authority)
    assert server.first["join"] == install_lines.pip
    return {"pip": install_lines.pip, "uv": install_lines.uv}


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_line_installs_what_the_server_runs(
    private: ServerProcess, bare: Path, installer: str
) -> None:
    if installer == "pip" and importlib.util.find_spec("pip") is None:
        pytest.skip("this environment was made without pip")
    line = lines(private)[installer]
    mark = line.split("sha256=")[1].rstrip('"')
    wrong = run_line(line.replace(mark, "0" * 64), bare)
    assert wrong.returncode != 0 and mark in wrong.stdout + wrong.stderr, "and says what came"
    assert not list(bare.parents[1].glob("lib/*/site-packages/potluck*"))
    process = run_line(line, bare)
    assert process.returncode == 0, process.stderr
    assert (bare.parent / "potluck").exists()
    if installer == "uv":  # once is enough: a server that was installed so hands out the same
        mark_process = subprocess.run([bare, "-c", OWN_MARK], capture_output=True, text=True)
        assert mark_process.stdout.strip() == mark, mark_process.stderr


def test_without_the_word_to_trust_the_host_the_certificate_is_not_believed(
    private: ServerProcess, bare: Path
) -> None:
    line = lines(private)["uv"].replace(f"--allow-insecure-host {private.url[8:]} ", "")
    assert "certificate" in run_line(line, bare).stderr.lower()


def test_an_invite_prints_the_command_to_join(private: ServerProcess, tmp_path: Path) -> None:
    admin = InProcess(tmp_path / "admin")
    admin.variables["POTLUCK_WALLET_KEY"] = private.wallet.key.hex()
    pin = ("--ca-fingerprint", str(private.first["ca_fingerprint"]))
    assert admin.run("login", private.url, *pin).status == 0
    assert lines(private)["pip"] in admin.run("admin", "invite").stderr


def test_a_server_prints_the_line_for_people() -> None:
    from potluck.cli.operate.server import _ready_lines
    from potluck.server.assemble import RunningServer

    package = Package("potluck", "1+h0", "potluck-1+h0-py3-none-any.whl", "ab", 1, "")
    ready_lines = _ready_lines(RunningServer("https://pool:8470", "sha256:cd", None, package))
    assert '  pip install --trusted-host pool:8470 "potluck @ https://pool:8470/v1' in "\n".join(
        ready_lines
    )
    assert (
        "  potluck run --server https://pool:8470 --ca-fingerprint sha256:cd --template hello"
        in ready_lines
    )
    never_installed = _ready_lines(RunningServer("http://127.0.0.1:1", None, None, None))
    assert "pip" not in "\n".join(never_installed)
