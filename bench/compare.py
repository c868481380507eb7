"""Potluck and its peers side by side: in turns, several rounds, medians and ratios.

    make bench                                     three rounds
    python -m bench.compare --rounds 1 --tasks 500 sooner
    python -m bench.compare --peers DIR            the folder with the peers, if it is elsewhere
    python -m bench.compare --only map call        some of the modes

Every round runs each program once, one after the other, so that a machine that is slow for a while
is slow for all of them; compare ratios, not figures of different runs. The peers are scripts of a
folder outside this project. Each prints a line of JSON with `tasks_per_s` and `p50_ms`.
Their environments and data are in PERF_DIR, where `setup.sh` of that folder installs them. What
cannot be run is skipped, and the reason is printed and kept.

Prints a table; JSON and a plot go to `bench/results/`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bench import plot

_PEERS = Path("../shared/peers")
_ENVIRONMENTS = Path(".cache/peers")
_RESULTS = Path("bench/results")
_LONGEST_SECONDS = 1_200.0


class Mode(Struct, frozen=True):
    """What is compared, and the ratio to the best peer that Potluck should reach."""

    title: str
    unit: str
    goal: float
    is_less_better: bool = False


MODES = {
    "map": Mode("map", "items/s", 10.0),
    "threads": Mode("64 threads, each submit().result()", "calls/s", 2.0),
    "loop": Mode("loop of submit(), then gather", "calls/s", 5.0),
    "call": Mode("one call at a time, p50", "ms", 0.8, is_less_better=True),
    "scripts": Mode("plain scripts", "tasks/s", 0.375),
    "commands": Mode("commands (/bin/true)", "tasks/s", 0.6),
}


class Program(Struct, frozen=True):
    """A program that prints JSON, and where in it the figures of modes are."""

    name: str
    command: tuple[str, ...]
    figures: dict[str, tuple[str, ...]]  # the path to the figure of each mode
    module: str = ""  # of Potluck
    environment: str = ""  # of a peer

    @property
    def is_potluck(self) -> bool:
        return bool(self.module)


def _ours(module: str, figures: dict[str, tuple[str, ...]], *options: str) -> Program:
    command = (sys.executable, "-m", module, *options)
    return Program(f"Potluck ({module})", command, figures, module=module)


def _peer(
    name: str, script: str, figures: dict[str, str], *options: str, environment: str = "venv-q"
) -> Program:
    paths: dict[str, tuple[str, ...]] = {mode: (key,) for mode, key in figures.items()}
    return Program(name, (script, *options), paths, environment=environment)


def programs(tasks: int) -> list[Program]:
    count = ("-n", str(tasks))
    single = {"threads": "tasks_per_s", "loop": "tasks_per_s", "call": "p50_ms"}
    return [
        _ours("bench.map", {"map": ("items_per_s",)}, "--rounds", "3"),
        _ours(
            "bench.calls",
            {
                "threads": ("threads", "calls_per_s"),
                "loop": ("loop", "calls_per_s"),
                "call": ("one_at_a_time", "p50_ms"),
            },
            *("--calls", str(tasks), "--rounds", "1"),
        ),
        _ours(
            "bench.tasks",
            {"scripts": ("scripts", "per_s"), "commands": ("commands", "per_s")},
            *("--seconds", "5", "--rounds", "1"),
        ),
        _peer("Dramatiq", "bench_dramatiq.py", single, *count),
        _peer("Dramatiq, strict", "bench_dramatiq.py", single, *count, "--variant", "strict"),
        _peer("Celery, strict", "bench_celery.py", single, *count, "--variant", "strict"),
        _peer("Procrastinate", "bench_procrastinate.py", single, *count),
        _peer(
            "PgQueuer, batch 100",
            "bench_pgqueuer.py",
            {"map": "tasks_per_s"},
            *(*count, "--mode", "bulk", "--variant", "b100"),
        ),
        _peer(
            "HyperQueue",
            "bench_hq.py",
            {"scripts": "tasks_per_s", "commands": "tasks_per_s"},
            *count,
            environment="venv-hq",
        ),
    ]


class Results:
    """Figures by mode and program, and why something is missing."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, list[float]]] = {mode: {} for mode in MODES}
        self.lines: list[dict[str, Any]] = []
        self.skipped: dict[str, str] = {}

    def add(self, number: int, program: Program, said: dict[str, Any]) -> None:
        self.lines.append({"round": number, "program": program.name, "said": said})
        for mode, path in program.figures.items():
            figure: Any = said
            for key in path:
                figure = figure[key]
            name = "Potluck" if program.is_potluck else program.name
            self.figures[mode].setdefault(name, []).append(float(figure))

    def summary(self) -> dict[str, dict[str, Any]]:
        return {mode: _compare(MODES[mode], by_name) for mode, by_name in self.figures.items()}


def _compare(mode: Mode, by_name: dict[str, list[float]]) -> dict[str, Any]:
    medians = {name: statistics.median(figures) for name, figures in by_name.items()}
    peers = {name: median for name, median in medians.items() if name != "Potluck"}
    choose = min if mode.is_less_better else max
    best = choose(peers, key=peers.__getitem__) if peers else None
    ratio = medians["Potluck"] / peers[best] if best and "Potluck" in medians else None
    is_met = ratio is not None and (
        ratio <= mode.goal if mode.is_less_better else ratio >= mode.goal
    )
    return {
        "title": mode.title,
        "unit": mode.unit,
        "programs": {
            name: {"median": medians[name], "least": min(figures), "most": max(figures)}
            for name, figures in by_name.items()
        },
        "best_peer": best,
        "ratio": ratio,
        "goal": mode.goal,
        "is_met": is_met,
    }


class Peers:
    """The folder with the peers, and their environments."""

    def __init__(self, folder: Path, environments: Path) -> None:
        self._folder = folder.resolve()
        self._environments = environments.resolve()
        self.variables = {**os.environ, "PERF_DIR": str(self._environments)}

    def reason_to_skip(self, program: Program) -> str:
        """Why the program cannot be run; empty if it can."""
        if program.is_potluck:
            return ""
        if not (self._folder / program.command[0]).exists():
            return f"there is no {program.command[0]} in {self._folder.name}; name it with --peers"
        if not self._python(program).exists():
            return (
                f"{program.environment} is not installed: run setup.sh in the folder of the peers,"
                f" with PERF_DIR={self._environments.name}"
            )
        return ""

    def run(self, program: Program) -> dict[str, Any]:
        command: Sequence[str] = program.command
        folder = None
        if not program.is_potluck:
            command, folder = (str(self._python(program)), *command), self._folder
        done = subprocess.run(
            command,
            cwd=folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=_LONGEST_SECONDS,
            check=False,
        )
        said = done.stdout[done.stdout.find("{") :]
        if done.returncode or not said:
            raise RuntimeError(f"status {done.returncode}: {(done.stderr or done.stdout)[-400:]}")
        found: dict[str, Any] = msgspec.json.decode(said)
        return found

    @contextmanager
    def services(self, are_needed: bool) -> Iterator[None]:
        """Redis and PostgreSQL of the peers."""
        script = self._folder / "services.sh"
        if not are_needed:
            yield
            return
        self._environments.joinpath("logs").mkdir(parents=True, exist_ok=True)
        self._call(script, "start")
        try:
            yield
        finally:
            self._call(script, "stop")

    def _call(self, script: Path, action: str) -> None:
        """Its daemons keep its output open, so it goes to a file."""
        with (self._environments / "logs" / "services.txt").open("ab") as output:
            subprocess.run(
                ["bash", str(script), action],
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=120,
                check=False,
            )

    def _python(self, program: Program) -> Path:
        return self._environments / program.environment / "bin" / "python"


def measure(chosen: Sequence[Program], peers: Peers, rounds: int) -> Results:
    results = Results()
    for program in chosen:
        if reason := peers.reason_to_skip(program):
            results.skipped[program.name] = reason
            _say(f"skipped {program.name}: {reason}")
    able = [program for program in chosen if program.name not in results.skipped]
    with peers.services(any(not program.is_potluck for program in able)):
        for number in range(1, rounds + 1):
            for program in able:
                began = time.monotonic()
                try:
                    results.add(number, program, peers.run(program))
                except (RuntimeError, msgspec.DecodeError, KeyError, OSError,
                        subprocess.TimeoutExpired) as error:  # fmt: skip
                    results.skipped[program.name] = f"failed in round {number}: {error}"
                    _say(f"failed: {program.name}: {error}")
                    continue
                _say(f"round {number}: {program.name}, {time.monotonic() - began:.0f} s")
    return results


def table(summary: dict[str, dict[str, Any]]) -> str:
    lines = ["| | Potluck | best peer | ratio | goal | met |", "|---|---|---|---|---|---|"]
    for mode in summary.values():
        if not mode["programs"]:
            continue
        ratio = "–" if mode["ratio"] is None else f"{mode['ratio']:.2f} ×"
        goal = f"{'≤' if mode['unit'] == 'ms' else '≥'} {mode['goal']:g} ×"
        best = mode["best_peer"]
        peer = "–" if best is None else f"{best}: {_spread(mode, best)}"
        is_met = "yes" if mode["is_met"] else "no"
        lines.append(
            f"| {mode['title']}, {mode['unit']} | {_spread(mode, 'Potluck')} | {peer} | {ratio} |"
            f" {goal} | {is_met} |"
        )
    return "\n".join(lines)


def _spread(mode: dict[str, Any], name: str) -> str:
    """The median, and the least and most of the rounds."""
    figures = mode["programs"].get(name)
    if figures is None:
        return "–"
    median, least, most = (f"{figures[key]:,.4g}" for key in ("median", "least", "most"))
    return f"{median} ({least} to {most})"


def draw(path: Path, summary: dict[str, dict[str, Any]]) -> None:
    panels = []
    for mode in summary.values():
        bars = {
            name: (figures["median"], _spread(mode, name))
            for name, figures in sorted(mode["programs"].items(), key=lambda item: item[0])
        }
        if bars:
            panels.append(plot.bar_panel(f"{mode['title']}, {mode['unit']}", bars))
    plot.write(path, panels)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=2_000, help="of each program and round")
    parser.add_argument("--peers", type=Path, default=_PEERS)
    default = Path(os.environ.get("PERF_DIR", _ENVIRONMENTS))
    parser.add_argument("--environments", type=Path, default=default)
    parser.add_argument("--only", nargs="*", choices=MODES, default=list(MODES))
    parser.add_argument("--results", type=Path, default=_RESULTS)
    given = parser.parse_args()
    wanted = set(given.only)
    chosen = [program for program in programs(given.tasks) if wanted & set(program.figures)]
    results = measure(chosen, Peers(given.peers, given.environments), given.rounds)
    summary = results.summary()
    given.results.mkdir(parents=True, exist_ok=True)
    name = f"compare-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    kept = {
        "rounds": given.rounds,
        "tasks": given.tasks,
        "cores": os.cpu_count(),
        "modes": summary,
        "skipped": results.skipped,
        "lines": results.lines,
    }
    (given.results / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    draw(given.results / f"{name}.svg", summary)
    print(table(summary))
    for program, reason in results.skipped.items():
        print(f"skipped {program}: {reason}")


if __name__ == "__main__":
    main()
