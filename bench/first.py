"""How long it takes from nothing to a first result: the join line, then `potluck run`.

    make bench-first

A pool runs: a server with its PostgreSQL, and a provider behind its sandbox. Then, as a user does
who never had Potluck: a new environment of Python, an empty home, the line that the server printed,
and `potluck run` in a terminal in which a password for the new wallet is typed twice. Once with an
empty download cache, and once with what that has left in it. Dependencies come from the package
index that pip and uv are set up for here. Prints JSON; `result_s` is from Enter to the end of the
task, and a person's typing is not in it.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from bench.join import PASSWORD, QUESTIONS, terminal
from bench.started import new_wallet, started

INSTALLERS = ("pip", "uv")
TEMPLATE = ("--template", "hello")
GREETED, ENDED = "Hello, world!", "hello succeeded"


def new_environment(directory: Path, installer: str) -> Path:
    """Where `pip` is a part of it, as `python3 -m venv` makes one; uv needs none inside."""
    venv.create(directory, with_pip=installer == "pip")
    return directory / "bin"


def install(line: str, programs: Path, installer: str, cache: Path) -> float:
    """Seconds that the line took. pip's own line is what the server printed."""
    words = shlex.split(line)[1:]
    if installer == "pip":
        command = [programs / "python", "-m", "pip", "--quiet", *words]
    else:
        uv = Path(sys.executable).with_name("uv")
        command = [uv, "--quiet", "pip", *words, "--python", programs / "python"]
    caches = {"PIP_CACHE_DIR": str(cache / "pip"), "UV_CACHE_DIR": str(cache / "uv")}
    began = time.perf_counter()
    done = subprocess.run(
        list(map(str, command)), env={**os.environ, **caches}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - began


def first_result(program: Path, url: str, home: Path) -> dict[str, float]:
    """Seconds from Enter to what the task wrote, and to its end."""
    home.mkdir()
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TERM": "dumb", "LANG": "C.UTF-8"}
    began = time.perf_counter()
    command = [str(program), "run", "--server", url, *TEMPLATE]
    with terminal(command, environment) as screen:
        for question in QUESTIONS:
            screen.until(question)
            screen.type(PASSWORD)
        screen.until(GREETED)
        greeted = time.perf_counter() - began
        screen.until(ENDED)
        return {"output_s": round(greeted, 2), "result_s": round(time.perf_counter() - began, 2)}


def measure(directory: Path) -> dict[str, object]:
    wallet = new_wallet()
    serve = ("server", "--port", "0", "--data-dir", directory)
    operator = {"POTLUCK_OPERATOR": wallet.address}
    with started(serve, operator, directory / "server.log") as server:
        url, line = server.first["url"], server.first["join"]
        provide = ("provide", url, "--data-dir", directory)
        key = {"POTLUCK_WALLET_KEY": wallet.key}
        with started(provide, key, directory / "provider.log"):
            found = [
                _try(directory, url, line, installer, cache)
                for installer in INSTALLERS
                for cache in ("cold", "warm")
            ]
    return {
        "commands": ["the join line", f"potluck run --server URL {' '.join(TEMPLATE)}"],
        "asked": len(QUESTIONS),
        "tries": found,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def _try(directory: Path, url: str, line: str, installer: str, cache: str) -> dict[str, object]:
    place = directory / f"{installer}-{cache}"
    programs = new_environment(place / "venv", installer)
    install_seconds = install(line, programs, installer, directory / "cache")
    times = first_result(programs / "potluck", url, place / "home")
    return {
        "installer": installer,
        "cache": cache,
        "install_s": round(install_seconds, 2),
        **times,
        "together_s": round(install_seconds + times["result_s"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the only form there is")
    parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="potluck-bench-") as name:
        print(json.dumps(measure(Path(name)), indent=2))


if __name__ == "__main__":
    main()
