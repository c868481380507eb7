"""`potluck simulate faults`: the server's own code through faults, with virtual time."""

import os
import time
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from potluck.cli.options import JsonOption
from potluck.cli.simulate.seeds import not_seeds, number, span
from potluck.cli.terminal.screen import Pane, Screen, Tone
from potluck.cli.terminal.units import show_count
from potluck.local.optional_dependency import server_part_missing
from potluck.model.error import InvalidInput
from potluck.simulate.faults.plan import Plan

if TYPE_CHECKING:
    from potluck.simulate.faults.many import Summary, Tally
    from potluck.simulate.faults.run import Outcome

_PLAN = Plan()
_SEEDS = 100
_TELL_EVERY_SECONDS = 30.0


def faults(
    seeds: Annotated[
        str | None,
        typer.Option(help="How many histories, or the first and the last seed: 1000-1999."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The first one. Without --seeds the only one.")
    ] = None,
    nodes: Annotated[
        int, typer.Option(min=1, max=100_000, help="Machines in the pool.")
    ] = _PLAN.nodes,
    steps: Annotated[
        int,
        typer.Option(min=1, max=1_000_000, help="Transactions with faults, before all is mended."),
    ] = _PLAN.steps,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes; one for each core if not said.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1, help="How long a history may take before it is a failure.")
    ] = 600.0,
    trace: Annotated[bool, typer.Option(help="Tell the history on stderr.")] = False,
    json: JsonOption = False,
) -> None:
    """Run histories full of faults, and check after every step that nothing is broken."""
    screen, plan = Screen(json), Plan(nodes=nodes, steps=steps)
    chosen = _chosen(seeds, seed)
    progress = _Progress(screen.err, len(chosen), plan, is_quiet=trace)
    summary = _run(chosen, (plan, seconds, trace), workers or os.cpu_count() or 1, progress)
    if json:
        screen.emit(summary)
    else:
        _tell(screen, summary)
    _end(screen, summary, chosen[-1])


def _chosen(seeds: str | None, first: int | None) -> range:
    if seeds is None:
        return range(_SEEDS) if first is None else range(first, first + 1)
    both_ends = span(seeds)
    if both_ends is None:
        if number(seeds) == 0:
            raise InvalidInput("--seeds 0 are no histories.", "Run one at least: --seeds 1")
        return range(first or 0, (first or 0) + number(seeds))
    if first is not None:
        raise not_seeds(f"--seed {first} --seeds {seeds}")
    return both_ends


def _run(
    seeds: range, how: tuple[Plan, float, bool], workers: int, progress: "_Progress"
) -> "Summary":
    try:
        from potluck.simulate.faults.many import run_many
        from potluck.simulate.faults.worker import Order
    except ImportError as error:
        raise server_part_missing(error.name) from error
    return run_many(seeds, Order(*how), workers=workers, seen=progress.see)


class _Progress:
    """On stderr: what broke at once, and how far it is now and then."""

    def __init__(self, pane: Pane, seeds: int, plan: Plan, *, is_quiet: bool) -> None:
        self._pane = pane
        self._seeds = seeds
        self._plan = plan
        self._is_quiet = is_quiet  # beside a trace, which is the same each time
        self._next_at = time.monotonic() + _TELL_EVERY_SECONDS

    def see(self, outcome: "Outcome", tally: "Tally") -> None:
        if outcome.violations:
            self._pane.line(f"Seed {outcome.seed}: {outcome.violations[0]}", Tone.BAD)
            self._pane.line(
                f"Replay it with: potluck simulate faults --seed {outcome.seed}"
                f" --nodes {self._plan.nodes} --steps {self._plan.steps} --trace"
            )
        if time.monotonic() >= self._next_at and not self._is_quiet:
            self._next_at = time.monotonic() + _TELL_EVERY_SECONDS
            self._pane.line(_so_far(tally.summary(), self._seeds), Tone.FAINT)


def _so_far(summary: "Summary", asked: int) -> str:
    left_minutes = (asked - summary.seeds) * summary.seconds / summary.seeds / 60
    return (
        f"{summary.seeds} of {asked} histories, {summary.steps} steps,"
        f" {summary.violations or 'nothing'} broken; about {left_minutes:.0f} min left."
    )


def _tell(screen: Screen, summary: "Summary") -> None:
    screen.out.line(
        f"{show_count(summary.seeds, 'history', 'histories')},"
        f" {show_count(summary.steps, 'step')}, {show_count(summary.tasks, 'task')}:"
        f" {summary.violations or 'nothing'} broken."
    )
    happened = ", ".join(f"{count} {kind}" for kind, count in summary.faults.items())
    screen.err.line(f"Went wrong on purpose: {happened}.", Tone.FAINT)
    screen.err.line(f"{summary.steps_per_second:.0f} steps a second.", Tone.FAINT)


def _end(screen: Screen, summary: "Summary", last: int) -> NoReturn:
    if summary.next_seed is not None:
        screen.err.line(f"Stopped. Go on with: --seeds {summary.next_seed}-{last}")
        raise typer.Exit(130)
    raise typer.Exit(1 if summary.failures else 0)
