"""Files of the host, by name, through other processes, and by writing where nobody should."""

import os
from functools import partial
from pathlib import Path

from tests.provider.sandbox.escapes.inside.attempt import add, probe
from tests.provider.sandbox.escapes.inside.bait import Bait
from tests.provider.sandbox.escapes.inside.calls import passes, room

_AT_CURRENT = -100
_PLACES = {
    "root": "in root's home",
    "home": "in a home",
    "tmp": "in /tmp",
    "var": "in /var",
    "run": "in /run",
    "opt": "in /opt",
    "srv": "in /srv",
    "local-etc": "in /usr/local/etc",
    "local-src": "in /usr/local/src",
    "src": "in /usr/src",
    "data-directory": "in the provider's data directory",
}
_OF_THE_SYSTEM = ("/etc/shadow", "/etc/machine-id", "/etc/ssh/sshd_config", "/boot", "/lost+found")


def _planted(place: str, bait: Bait) -> str | None:
    return _has_canary(Path(bait.files[place]), bait)


def _has_canary(path: Path, bait: Bait) -> str | None:
    return str(path) if bait.canary in path.read_text() else None


for _place, _where in _PLACES.items():
    add(f"file-{_place}", f"read a file that lies {_where}", partial(_planted, _place))


@probe("file-source", "read the source of the tests, or of the provider")
def source(bait: Bait) -> str | None:
    return Path(bait.files["source"]).read_text()[:20]


@probe("files-of-the-system", "find passwords, keys and names of the host in /etc and /boot")
def of_the_system(bait: Bait) -> str | None:
    return " ".join(path for path in _OF_THE_SYSTEM if Path(path).exists())


@probe("search", "search all directories but the system's own for the canary")
def search(bait: Bait) -> str | None:
    skipped = {"/proc", "/sys", "/usr", "/dev", *(f"/{name}" for name in ("bin", "lib", "sbin"))}
    sought_names = {Path(path).name for path in bait.files.values()} - {
        Path(bait.files["source"]).name
    }
    for top in sorted(set(map(str, Path("/").iterdir())) - skipped):
        for number, (folder, _, names) in enumerate(os.walk(top)):
            if matches := sought_names & set(names):
                return f"{folder}/{matches.pop()}"
            if number > 300:  # enough of it; what is planted lies near the top
                break
    return None


@probe("root-of-init", "read the host's files through /proc/1/root")
def root_of_init(bait: Bait) -> str | None:
    return _has_canary(Path(f"/proc/1/root{bait.files['tmp']}"), bait)


@probe("root-of-a-process", "read the host's files through /proc/PID/root")
def root_of_a_process(bait: Bait) -> str | None:
    return _has_canary(Path(f"/proc/{bait.neighbour.pid}/root{bait.files['tmp']}"), bait)


@probe("dots", "read the host's files through .. above the root")
def dots(bait: Bait) -> str | None:
    return _has_canary(Path("/work" + "/.." * 40 + bait.files["tmp"]), bait)


@probe("link", "read the host's files through a symbolic link of its own")
def link(bait: Bait) -> str | None:
    link_path = Path("a-link")
    link_path.symlink_to(bait.files["tmp"])
    return _has_canary(link_path, bait)


@probe("hard-link", "link a program of the host into the work directory")
def hard_link(bait: Bait) -> str | None:
    Path("a-hard-link").hardlink_to("/usr/bin/env")
    return "linked"


@probe("file-handle", "open a file by its handle, past all directories")
def file_handle(bait: Bait) -> str | None:
    return passes("open_by_handle_at", _AT_CURRENT, room(24), 0)


def _write(path: str, bait: Bait) -> str | None:
    target = Path(path)
    target.touch()
    target.unlink()
    return f"made {path}"


for _directory in ("/", "/usr/lib", "/etc", "/dev"):
    add(
        f"write-{_directory.strip('/') or 'top'}",
        f"make a file in {_directory}",
        partial(_write, f"{_directory.rstrip('/')}/potluck-was-here"),
    )


@probe("write-shown", "write to what is shown to be read")
def write_shown(bait: Bait) -> str | None:
    return _write(f"{bait.shown}/potluck-was-here", bait)


@probe("overwrite-program", "write into a program that everybody runs")
def overwrite_program(bait: Bait) -> str | None:
    os.close(os.open("/usr/bin/env", os.O_WRONLY))
    return "opened"
