"""A base image with Python, packed from the Debian packages of this machine.

It stands for `python:…-slim` where no registry can be reached.
"""

import re
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

_PACKAGES = ("base-files", "coreutils", "dash", "python3", "python3-venv", "ca-certificates")
# As in the slim images: no manuals, no translations.
_LEFT_OUT = re.compile(r"^/usr/share/(doc|man|info|locale|lintian|bash-completion)/|\.pyc$")
# What the packages set up when they are installed, and a program expects to be there.
_FILES = ("/etc/passwd", "/etc/group", "/etc/ssl/certs/ca-certificates.crt", "/etc/ld.so.cache")
_DIRECTORIES = ("/tmp", "/proc", "/sys", "/dev", "/root", "/run", "/var/tmp")


def pack_base(archive: Path) -> None:
    """Writes a root file system with Python, venv and a shell."""
    links = {f"/{name}" for name in ("bin", "lib", "lib64", "sbin")}
    paths = {_real(path) for path in (*_listed(_with_dependencies()), *_FILES)}
    with tarfile.open(archive, "w") as tar:
        for path in sorted({*links, *_DIRECTORIES, *paths} - {"/"}):
            if not _LEFT_OUT.search(path) and Path(path).exists():
                tar.add(path, path[1:], recursive=False)


def _real(path: str) -> str:
    """Packages still write `/bin/cat` of what is in `/usr/bin`."""
    return str(Path(path).parent.resolve() / Path(path).name)


def _with_dependencies() -> set[str]:
    """Installed packages that these need, all the way down."""
    fields = "${Package}\t${Provides}\t${Depends}, ${Pre-Depends}\n"
    lines = _run("dpkg-query", "-W", "-f", fields).splitlines()
    needs, providers = {}, {}
    for name, provides, depends in (line.split("\t") for line in lines):
        needs[name] = _names(depends)
        providers.update(dict.fromkeys([*_names(provides), name], name))
    packages: set[str] = set()
    pending = list(_PACKAGES)
    while pending:
        package = providers.get(pending.pop())
        if package is not None and package not in packages:
            packages.add(package)
            pending += needs[package]
    return packages


def _names(field: str) -> list[str]:
    return [re.split(r"[ :(]", part.strip())[0] for part in re.split("[,|]", field) if part.strip()]


def _listed(packages: Iterable[str]) -> list[str]:
    return [path for path in _run("dpkg", "-L", *sorted(packages)).splitlines() if path[:1] == "/"]


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
