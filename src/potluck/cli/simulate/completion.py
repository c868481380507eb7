"""`potluck simulate completion`: how long the jobs of a trace take under an order policy."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from potluck.cli.options import JsonOption
from potluck.cli.simulate import chart_file
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.local.optional_dependency import server_part_missing
from potluck.model.error import InvalidInput
from potluck.model.units import show_count

if TYPE_CHECKING:
    from potluck.simulate.frontier import FrontierPoint


class Estimates(StrEnum):
    """How accurate users' estimates of run time are."""

    EXACT = "exact"
    LOGNORMAL = "lognormal"


def completion(
    trace: Annotated[
        Path, typer.Option(help="A CSV file: timestamp, duration, num_gpus, cluster.")
    ],
    gpus: Annotated[int, typer.Option(min=1, max=100_000, help="GPUs in the pool.")] = 640,
    gpus_per_node: Annotated[int, typer.Option(min=1, max=64, help="GPUs on each node.")] = 8,
    policy: Annotated[str, typer.Option(help="The order policy.")] = "shortest",
    placement: Annotated[str, typer.Option(help="The placement policy.")] = "fragmentation",
    promise_hours: Annotated[
        float, typer.Option(min=1, help="The longest wait that `shortest` aims for.")
    ] = 60.0,
    estimates: Annotated[
        Estimates, typer.Option(help="Exact estimates, or wrong by e^N(0,1).")
    ] = Estimates.EXACT,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the wrong estimates.")] = 0,
    frontier: Annotated[
        bool,
        typer.Option("--frontier", help="Compare several promises, with both kinds of estimates."),
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Write a chart to this SVG file.")] = None,
    json: JsonOption = False,
) -> None:
    """Replay a trace through the scheduler, and show completion and waiting times."""
    screen = Screen(json)
    chart_file.check_chart_path(plot)
    points = _replay(
        _CompletionOptions(
            trace, gpus, gpus_per_node, policy, placement, promise_hours, estimates, seed
        ),
        frontier,
    )
    if plot is not None:
        _draw(points, plot)
    if json:
        screen.emit(_as_json(points))
    else:
        _show(screen, points)


class _CompletionOptions(NamedTuple):
    trace: Path
    gpus: int
    gpus_per_node: int
    policy: str
    placement: str
    promise_hours: float
    estimates: Estimates
    seed: int


def _replay(options: _CompletionOptions, is_frontier: bool) -> "list[FrontierPoint]":
    if options.gpus % options.gpus_per_node:
        raise InvalidInput(
            f"{options.gpus} GPUs do not fill nodes of {options.gpus_per_node}.",
            f"Take a multiple of {options.gpus_per_node}.",
        )
    try:
        from potluck.simulate.completion import SimulatedCluster
        from potluck.simulate.frontier import (
            ESTIMATE_SPREAD,
            GUARANTEE_HOURS,
            FrontierRun,
            replay_all,
        )
    except ImportError as error:
        raise server_part_missing(error.name) from error
    spreads = {Estimates.EXACT: 0.0, Estimates.LOGNORMAL: ESTIMATE_SPREAD}
    errors = list(spreads.values()) if is_frontier else [spreads[options.estimates]]
    promises = GUARANTEE_HOURS if is_frontier else (options.promise_hours,)
    cluster = SimulatedCluster(options.gpus, options.gpus_per_node)
    runs = [
        FrontierRun(
            options.trace, cluster, options.policy, options.placement, hours, spread, options.seed
        )
        for spread in errors
        for hours in promises
    ]
    return replay_all(runs, os.cpu_count() or 1)


def _as_json(points: "list[FrontierPoint]") -> dict[str, object]:
    """One replay as a flat object; several as a list under `frontier`."""
    rows: list[dict[str, object]] = [
        {
            "policy": point.run.policy,
            "placement": point.run.placement,
            "promise_h": point.run.promise_hours,
            "estimates": _estimates(point).value,
            "seed": point.run.seed,
            "jobs": point.outcome.jobs,
            "mean_completion_s": round(point.outcome.mean_completion_s, 1),
            "mean_wait_s": round(point.outcome.mean_wait_s, 1),
            "longest_wait_h": round(point.outcome.longest_wait_h, 2),
        }
        for point in points
    ]
    return rows[0] if len(rows) == 1 else {"policy": points[0].run.policy, "frontier": rows}


def _show(screen: Screen, points: "list[FrontierPoint]") -> None:
    columns = [
        TableColumn("policy"),
        TableColumn("estimates"),
        TableColumn("promise", is_number=True),
        TableColumn("mean completion", is_number=True),
        TableColumn("longest wait", is_number=True),
    ]
    rows = [
        [
            Cell(point.run.policy, Tone.STRONG),
            Cell(_estimates(point).value),
            Cell(f"{point.run.promise_hours:,.0f} h"),
            Cell(f"{point.outcome.mean_completion_s:,.0f} s"),
            Cell(f"{point.outcome.longest_wait_h:,.1f} h"),
        ]
        for point in points
    ]
    show_table(screen.out, columns, rows)
    run, jobs = points[0].run, points[0].outcome.jobs
    screen.err.line(
        f"{show_count(jobs, 'job')} on {show_count(run.cluster.gpus, 'GPU')}"
        f" in nodes of {run.cluster.gpus_per_node},"
        f" placed by {run.placement}.",
        Tone.FAINT,
    )


def _draw(points: "list[FrontierPoint]", path: Path) -> None:
    from potluck.simulate.plot import PlotSeries, line_chart

    series = [
        PlotSeries(
            f"{points[0].run.policy}, {kind.value}",
            [
                (point.outcome.longest_wait_h, point.outcome.mean_completion_s)
                for point in points
                if _estimates(point) is kind
            ],
        )
        for kind in Estimates
    ]
    chart = line_chart(
        "The cost of a promise",
        "longest wait (h)",
        "mean completion (s)",
        [line for line in series if line.points],
    )
    chart_file.write_chart(path, chart)


def _estimates(point: "FrontierPoint") -> Estimates:
    return Estimates.LOGNORMAL if point.run.spread else Estimates.EXACT
