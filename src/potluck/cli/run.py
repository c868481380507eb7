"""`potluck run`: a script, from here to a device and back, with its output and exit status."""

from typing import Annotated

import typer
from msgspec.structs import replace

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.pick import pick_task_id
from potluck.cli.request import checked, device_needs, parse_environment, parse_labels
from potluck.cli.screen import Screen
from potluck.cli.script import read_script
from potluck.cli.story import where_shown
from potluck.cli.watch import watch
from potluck.model.device import DeviceKind
from potluck.model.ids import TaskId
from potluck.model.node import SandboxStrength
from potluck.model.spec import ScriptSpec
from potluck.model.task import MOST_ITEMS, Limits, Requirements, TaskRequest
from potluck.model.units import parse_bytes, parse_credits, parse_milli, parse_seconds

_DEVICE = "What it needs"
_SANDBOX = "Its walls"
_WHEN = "When it runs"
_ARRAY = "Many at once"


def run(
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", help="A Python file; `-` reads stdin.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="For the script, untouched.", show_default=False),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Instead of the file's name.")] = None,
    gpu: Annotated[
        int, typer.Option(min=0, max=64, help="GPUs; 0 takes any device.", rich_help_panel=_DEVICE)
    ] = 0,
    device_kind: Annotated[
        DeviceKind | None, typer.Option(help="Only this kind.", rich_help_panel=_DEVICE)
    ] = None,
    device_memory: Annotated[
        str,
        typer.Option(metavar="SIZE", help="On each device, such as 8GB.", rich_help_panel=_DEVICE),
    ] = "0",
    fraction: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="A part of one GPU: 0.25, or 250m; of a processor --cores takes its share.",
            rich_help_panel=_DEVICE,
        ),
    ] = None,
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            help="The rest of the device may serve other accounts meanwhile.",
            rich_help_panel=_DEVICE,
        ),
    ] = False,
    vendor: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Such as NVIDIA.", rich_help_panel=_DEVICE),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help='Such as "RTX 40*|A100".', rich_help_panel=_DEVICE),
    ] = None,
    capability: Annotated[
        str | None,
        typer.Option(
            metavar="X.Y", help="CUDA compute capability, at least.", rich_help_panel=_DEVICE
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL",
            help="That the node has, word for word, such as region=eu; repeatable.",
            rich_help_panel=_DEVICE,
            show_default=False,
        ),
    ] = None,
    min_reliability: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Of its attempts, the node ended so many: 0.95.",
            rich_help_panel=_DEVICE,
        ),
    ] = None,
    sandbox: Annotated[
        SandboxStrength | None,
        typer.Option(help="At least this strong.", rich_help_panel=_DEVICE),
    ] = None,
    max_price: Annotated[
        str | None,
        typer.Option(
            metavar="CREDITS",
            help="At most, an hour, for all that the task takes of its devices.",
            rich_help_panel=_DEVICE,
        ),
    ] = None,
    cores: Annotated[int, typer.Option(min=1, max=4096, rich_help_panel=_SANDBOX)] = 1,
    memory: Annotated[str, typer.Option(metavar="SIZE", rich_help_panel=_SANDBOX)] = "1GiB",
    disk: Annotated[str, typer.Option(metavar="SIZE", rich_help_panel=_SANDBOX)] = "256MiB",
    time: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="It is ended after this: 90s, 15m, 1h30m …; of an array, each item.",
            rich_help_panel=_SANDBOX,
        ),
    ] = "6h",
    stop_after_silence: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The node ends it when the server is silent for so long; else it goes on.",
            rich_help_panel=_SANDBOX,
        ),
    ] = None,
    array: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_ITEMS,
            metavar="N",
            help="Run it N times; POTLUCK_ITEM says which, from 0.",
            rich_help_panel=_ARRAY,
        ),
    ] = None,
    allow_failures: Annotated[
        int,
        typer.Option(
            min=0,
            max=MOST_ITEMS,
            metavar="N",
            help="It succeeds if no more items fail.",
            rich_help_panel=_ARRAY,
        ),
    ] = 0,
    after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK",
            help="Only once this task of mine has succeeded; repeatable.",
            rich_help_panel=_WHEN,
            show_default=False,
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Not before this is over.", rich_help_panel=_WHEN),
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Started within this, or never.", rich_help_panel=_WHEN),
    ] = None,
    expected: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long it will take, about; of an array, each item.",
            rich_help_panel=_WHEN,
        ),
    ] = None,
    priority: Annotated[
        int,
        typer.Option(min=-100, max=100, help="Higher goes first.", rich_help_panel=_WHEN),
    ] = 0,
    attempts: Annotated[
        int, typer.Option(min=1, max=100, help="Tries, if it fails by itself.")
    ] = 1,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="For the script; repeatable.", show_default=False),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Do not wait; show its id and return.")
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Run a Python script on a device of the pool, as if it ran here.

    Options go before SCRIPT; whatever follows it goes to the script.

    Its dependencies are those of its PEP 723 block.

    The exit status is the script's own; of an array, 0 if it succeeded and 1 if not.
    """
    filename, source = read_script(script)
    kind, count = device_needs(gpu, device_kind)
    request = TaskRequest(
        spec=ScriptSpec(filename, source, tuple(arguments or ()), parse_environment(env or [])),
        name=name,
        requirements=Requirements(
            device_kind=kind,
            device_count=count,
            device_milli=parse_milli(fraction, "--fraction") if fraction else None,
            device_memory_bytes=parse_bytes(device_memory, "--device-memory"),
            device_vendor=vendor,
            device_model=model,
            compute_capability=capability,
            max_price_micro_per_hour=parse_credits(max_price, "--max-price") if max_price else None,
            labels=parse_labels(label or []),
            min_reliability=min_reliability,
            sandbox=sandbox,
            shares_device=share,
            cores=cores,
            memory_bytes=parse_bytes(memory, "--memory"),
            disk_bytes=parse_bytes(disk, "--disk"),
        ),
        limits=Limits(
            run_seconds=parse_seconds(time, "--time"),
            stop_after_silence_seconds=_seconds(stop_after_silence, "--stop-after-silence"),
        ),
        priority=priority,
        max_attempts=attempts,
        start_within_seconds=_seconds(deadline, "--deadline"),
        delay_seconds=_seconds(delay, "--delay"),
        expected_seconds=_seconds(expected, "--expected"),
        items=array,
        allow_failures=allow_failures,
    )
    raise typer.Exit(_run(checked(request), after or [], Screen(json), server, detach))


def _seconds(text: str | None, option: str) -> float | None:
    return parse_seconds(text, option) if text else None


def _run(
    request: TaskRequest, after: list[str], screen: Screen, server: str | None, detach: bool
) -> int:
    with connect(server) as potluck:
        first = dict.fromkeys(TaskId(pick_task_id(potluck, each)) for each in after)
        request = replace(request, after=tuple(first))
        if not detach:
            return watch(potluck, request, screen)
        task = potluck.submit(request)
    if screen.json:
        screen.emit(task)
    else:
        screen.out.line(task.id)
        screen.err.line(f"It runs without you; {where_shown(task)}.")
    return 0
