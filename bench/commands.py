"""How long short commands take, as multiples of `python -c pass` in the same run.

    make bench-commands
    python -m bench.commands --rounds 20

A small server on loopback answers `ps` with an empty list, so that the command is measured and not
the pool. Processor time (`cpu`) and the clock's time (`wall`) are minima over the rounds.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

GOALS = {"help": 12.0, "ps": 20.0, "complete": 12.0}
_PROGRAM = str(Path(sys.executable).with_name("potluck"))
_COMPLETION = {"_POTLUCK_COMPLETE": "complete_bash", "COMP_WORDS": "potluck r", "COMP_CWORD": "1"}


class _EmptyPool(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b'{"tasks":[],"next_cursor":null}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def run_once(command: list[str], variables: dict[str, str]) -> tuple[float, float]:
    """Processor time and the clock's time, in seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        command,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - began


def measure(rounds: int, url: str) -> dict[str, tuple[float, float]]:
    """The least of each, in turns, so that the load of the machine is the same for all."""
    pool = {"POTLUCK_URL": url, "POTLUCK_TOKEN": "a key"}
    cases = {
        "pass": ([sys.executable, "-c", "pass"], {}),
        "help": ([_PROGRAM, "--help"], {}),
        "ps": ([_PROGRAM, "ps"], pool),
        "complete": ([_PROGRAM], _COMPLETION),
    }
    least = dict.fromkeys(cases, (float("inf"), float("inf")))
    for _ in range(rounds):
        for name, (command, variables) in cases.items():
            cpu, wall = run_once(command, variables)
            least[name] = (min(cpu, least[name][0]), min(wall, least[name][1]))
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    server = HTTPServer(("127.0.0.1", 0), _EmptyPool)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    least = measure(options.rounds, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    (plain_cpu, plain_wall) = least["pass"]
    print(
        json.dumps(
            {
                name: {
                    "cpu_ms": round(1000 * cpu, 1),
                    "wall_ms": round(1000 * wall, 1),
                    "cpu_ratio": round(cpu / plain_cpu, 1),
                    "wall_ratio": round(wall / plain_wall, 1),
                    "goal_ratio": GOALS.get(name),
                }
                for name, (cpu, wall) in least.items()
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
