"""What `deploy/` has, as the tools read it that it is for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import need
from tests.deploy.shipped_config import DEPLOY, adapted

_RELEASE_TOOLS = Path(sys.executable).parent.parent / "release" / "bin"
_OLDEST_KUBERNETES = "1.29"


def run(*command: str | Path, **variables: str) -> str:
    """What it wrote; fails with that if it is not content."""
    process = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    output = process.stdout + process.stderr
    assert process.returncode == 0, output
    return output


def test_the_linter_finds_nothing_in_the_dockerfile() -> None:
    run(_RELEASE_TOOLS / "hadolint", DEPLOY / "Dockerfile")


def test_compose_takes_its_file() -> None:
    if shutil.which("docker-compose") is None:
        need("docker-compose")
    variables = {
        "POTLUCK_SITE": "pool.example.org",
        "POSTGRES_PASSWORD": "word",
        "POTLUCK_ENCRYPTION_KEY": "5e" * 32,
    }
    text = run("docker-compose", "-f", DEPLOY / "compose" / "compose.yaml", "config", **variables)
    for service in ("server-1", "server-2", "postgres", "valkey", "caddy", "prometheus"):
        assert f"  {service}:\n" in text
    assert text.count("POTLUCK_PUBLIC_URL: https://pool.example.org") == 2


def test_compose_names_the_variable_that_is_missing() -> None:
    if shutil.which("docker-compose") is None:
        need("docker-compose")
    command = ["docker-compose", "-f", str(DEPLOY / "compose" / "compose.yaml"), "config"]
    process = subprocess.run(
        command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    assert process.returncode != 0 and "the public name" in process.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here")
def test_prometheus_takes_its_file() -> None:
    run("promtool", "check", "config", "--syntax-only", DEPLOY / "compose" / "prometheus.yml")


@pytest.mark.parametrize("version", [_OLDEST_KUBERNETES, "newest"])
def test_kubernetes_knows_every_field(version: str) -> None:
    version_options = [] if version == "newest" else ["-k", version]
    manifest = DEPLOY / "kubernetes" / "potluck.yaml"
    output = run(_RELEASE_TOOLS / "kubernetes-validate", "--strict", *version_options, manifest)
    assert output.count(" passed for resource ") == 5


def test_an_unknown_field_would_be_found(tmp_path: Path) -> None:
    manifest = tmp_path / "potluck.yaml"
    manifest.write_text(adapted("kubernetes/potluck.yaml", {"readinessProbe:": "readyProbe:"}))
    process = subprocess.run(
        [_RELEASE_TOOLS / "kubernetes-validate", "--strict", manifest], capture_output=True
    )
    assert process.returncode != 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("name", ["potluck-server", "potluck-provider", "potluck-treasury"])
def test_systemd_takes_the_units(name: str, tmp_path: Path) -> None:
    unit = written_unit(name, tmp_path)
    assert run("systemd-analyze", "verify", "--man=no", unit) == ""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("name", ["potluck-server", "potluck-treasury"])
def test_the_server_is_exposed_to_little(name: str, tmp_path: Path) -> None:
    """systemd's own measure, from 0 to 10; a unit without walls has 9.6."""
    unit = written_unit(name, tmp_path)
    run("systemd-analyze", "security", "--offline=true", "--threshold=20", unit)


def written_unit(name: str, directory: Path) -> Path:
    """With a program that exists."""
    unit = directory / f"{name}.service"
    changes = {"/opt/potluck/bin/potluck": "/bin/true"}
    unit.write_text(adapted(f"systemd/{name}.service", changes))
    return unit
