"""`potluck simulate faults`: the server's own code through faults, with virtual time."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption
from potluck.cli.screen import Screen, Tone
from potluck.cli.units import show_count
from potluck.model.error import Internal, StartFailed

if TYPE_CHECKING:
    from potluck.simulate.faults.many import Failure, Summary


def faults(
    seeds: Annotated[int, typer.Option(min=1, help="How many histories.")] = 100,
    seed: Annotated[
        int, typer.Option(min=0, help="The first of them: with --seeds 1 it is replayed.")
    ] = 0,
    nodes: Annotated[int, typer.Option(min=1, max=100_000, help="Machines in the pool.")] = 5,
    steps: Annotated[
        int, typer.Option(min=1, help="Transactions with faults, before all is mended.")
    ] = 300,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes; one for each core if not said.")
    ] = None,
    trace: Annotated[bool, typer.Option(help="Tell the history on stderr.")] = False,
    json: JsonOption = False,
) -> None:
    """Run histories full of faults, and check after every step that nothing is broken."""
    screen = Screen(json)
    summary = _run(seed, seeds, nodes, steps, workers or os.cpu_count() or 1, trace)
    if json:
        screen.emit(summary)
        raise typer.Exit(1 if summary.failures else 0)
    _tell(screen, summary)
    if summary.failures:
        raise _broken(summary.failures[0], nodes, steps)


def _run(first: int, count: int, nodes: int, steps: int, workers: int, trace: bool) -> "Summary":
    try:
        from potluck.simulate.faults.many import run_many
        from potluck.simulate.faults.world import Plan
    except ImportError as error:
        raise StartFailed(
            f"The server's part of Potluck is not installed ({error.name} is missing).",
            "Install it with: pip install 'potluck[server]'",
        ) from error
    plan = Plan(nodes=nodes, steps=steps)
    return run_many(first, count, plan, workers=workers, is_traced=trace)


def _tell(screen: Screen, summary: "Summary") -> None:
    screen.out.line(
        f"{show_count(summary.seeds, 'history', 'histories')},"
        f" {show_count(summary.steps, 'step')}, {show_count(summary.tasks, 'task')}:"
        f" {summary.violations or 'nothing'} broken."
    )
    happened = ", ".join(f"{count} {kind}" for kind, count in summary.faults.items())
    screen.err.line(f"Went wrong on purpose: {happened}.", Tone.FAINT)
    screen.err.line(f"{summary.steps_per_second:.0f} steps a second.", Tone.FAINT)


def _broken(failure: "Failure", nodes: int, steps: int) -> Internal:
    return Internal(
        f"Seed {failure.seed}: {failure.violations[0]}",
        f"Replay it with: potluck simulate faults --seed {failure.seed} --seeds 1"
        f" --nodes {nodes} --steps {steps} --trace",
    )
