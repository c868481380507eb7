"""Where on this machine a container engine listens."""

import os
from collections.abc import Mapping
from pathlib import Path

from potluck.model.error import BadSettings, SandboxUnavailable

_UNIX = "unix://"


def find_socket(url: str, variables: Mapping[str, str] = os.environ) -> Path | None:
    """The one that the owner names, else the first of those that this user may open."""
    if url:
        return _named(url)
    return next((path for path in _usual(variables) if os.access(path, os.R_OK | os.W_OK)), None)


def need_socket(url: str, variables: Mapping[str, str] = os.environ) -> Path:
    found = find_socket(url, variables)
    if found is None:
        raise SandboxUnavailable(
            "There is no container engine here that this user may talk to.",
            "Install Docker or Podman and let this user open its socket (`sudo usermod -aG docker "
            "USER`, or `systemctl --user start podman.socket`), or name it: "
            "POTLUCK_PROVIDER_DOCKER_URL=unix:///path/to/its.sock.",
        )
    return found


def _named(url: str) -> Path:
    """Only on this machine: what is mounted into a container lies here."""
    if not url.startswith(f"{_UNIX}/"):
        raise BadSettings(
            f"docker_url {url!r} is no socket of this machine.",
            "Write it like unix:///var/run/docker.sock.",
        )
    return Path(url.removeprefix(_UNIX))


def _usual(variables: Mapping[str, str]) -> list[Path]:
    own = variables.get("XDG_RUNTIME_DIR")
    places = [Path("/var/run/docker.sock"), Path("/run/podman/podman.sock")]
    if own:
        places += [Path(own) / "docker.sock", Path(own) / "podman/podman.sock"]
    return places
