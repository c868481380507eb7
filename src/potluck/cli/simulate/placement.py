"""`potluck simulate placement`: how much of a pool a placement policy can fill."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption
from potluck.cli.simulate import chart_file
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.local.optional_dependency import server_part_missing
from potluck.model.error import InvalidInput

if TYPE_CHECKING:
    from potluck.simulate.placement import PlacementRun

_DEFAULT = "fragmentation"


def placement(
    trace: Annotated[Path, typer.Option(help="A directory of openb traces.")],
    list_name: Annotated[
        str, typer.Option("--list", help="The task list: its name or its file.")
    ] = "default",
    seeds: Annotated[str, typer.Option(help="One seed, or a range: 42-51.")] = "42-51",
    policy: Annotated[
        list[str] | None, typer.Option(help="The placement policy; repeat to compare.")
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn the demand from arriving tasks, like a pool.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Write a chart to this SVG file.")] = None,
    json: JsonOption = False,
) -> None:
    """Fill the nodes of a trace with a list of tasks, and show the allocated share."""
    screen = Screen(json)
    chart_file.check_chart_path(plot)
    runs = _run(trace, list_name, _seeds(seeds), policy or [_DEFAULT], not learn)
    if plot is not None:
        _draw(runs, plot)
    if json:
        results = [run.result for run in runs]
        screen.emit(results[0] if len(results) == 1 else results)
    else:
        _show(screen, runs)


def _seeds(text: str) -> range:
    """One number, or a range such as 42-51."""
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if last < first:
        raise InvalidInput(f"{text!r} is not a range of seeds.", "Write it like --seeds 42-51.")
    return range(first, last + 1)


def _run(
    trace: Path, list_name: str, seeds: range, policies: list[str], is_mix_known: bool
) -> "list[PlacementRun]":
    try:
        from potluck.server.policies import placement_by_name
        from potluck.simulate.openb import read_openb
        from potluck.simulate.placement import simulate_placement
    except ImportError as error:
        raise server_part_missing(error.name) from error
    tasks = read_openb(trace, list_name)
    return [
        simulate_placement(tasks, name, partial(placement_by_name, name), seeds, is_mix_known)
        for name in policies
    ]


def _show(screen: Screen, runs: "list[PlacementRun]") -> None:
    columns = [
        TableColumn("policy"),
        TableColumn("at 100 %", is_number=True),
        TableColumn("at 130 %", is_number=True),
        TableColumn("seeds", is_number=True),
    ]
    rows = [
        [
            Cell(run.result.policy, Tone.STRONG),
            Cell(f"{run.result.allocated_at_100:.2f} %"),
            Cell(f"{run.result.allocated_at_130:.2f} %"),
            Cell(str(len(run.result.per_seed))),
        ]
        for run in runs
    ]
    show_table(screen.out, columns, rows)
    screen.err.line("Allocated GPUs at this level of demand.", Tone.FAINT)


def _draw(runs: "list[PlacementRun]", path: Path) -> None:
    from potluck.simulate.plot import PlotSeries, line_chart

    series = [
        PlotSeries(
            run.result.policy,
            [(point.asked_percent, point.allocated_percent) for point in run.curve[80::2]],
        )
        for run in runs
    ]
    chart = line_chart(
        "Allocation by placement policy", "GPUs requested (%)", "GPUs allocated (%)", series
    )
    chart_file.write_chart(path, chart)
