"""`potluck run`: a script, from here to a device and back, with its output and exit status."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.request import checked, device_needs, parse_environment
from potluck.cli.screen import Screen
from potluck.cli.script import read_script
from potluck.cli.units import parse_bytes, parse_credits, parse_seconds
from potluck.cli.watch import watch
from potluck.model.device import DeviceKind
from potluck.model.task import Limits, Requirements, ScriptSpec, TaskRequest

_DEVICE = "What it needs"
_SANDBOX = "Its walls"


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
    model: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help='Such as "RTX 40*".', rich_help_panel=_DEVICE),
    ] = None,
    max_price: Annotated[
        str | None,
        typer.Option(
            metavar="CREDITS", help="At most, for a device and hour.", rich_help_panel=_DEVICE
        ),
    ] = None,
    cores: Annotated[int, typer.Option(min=1, max=4096, rich_help_panel=_SANDBOX)] = 1,
    memory: Annotated[str, typer.Option(metavar="SIZE", rich_help_panel=_SANDBOX)] = "1GiB",
    disk: Annotated[str, typer.Option(metavar="SIZE", rich_help_panel=_SANDBOX)] = "256MiB",
    time: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="It is ended after this: 90s, 15m, 1h30m …",
            rich_help_panel=_SANDBOX,
        ),
    ] = "6h",
    priority: Annotated[int, typer.Option(min=-100, max=100, help="Higher goes first.")] = 0,
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

    The exit status is the script's own.
    """
    filename, source = read_script(script)
    kind, count = device_needs(gpu, device_kind)
    request = TaskRequest(
        spec=ScriptSpec(filename, source, tuple(arguments or ()), parse_environment(env or [])),
        name=name,
        requirements=Requirements(
            device_kind=kind,
            device_count=count,
            device_memory_bytes=parse_bytes(device_memory, "--device-memory"),
            device_model=model,
            max_price_micro_per_hour=parse_credits(max_price, "--max-price") if max_price else None,
            cores=cores,
            memory_bytes=parse_bytes(memory, "--memory"),
            disk_bytes=parse_bytes(disk, "--disk"),
        ),
        limits=Limits(run_seconds=parse_seconds(time, "--time")),
        priority=priority,
        max_attempts=attempts,
    )
    raise typer.Exit(_run(checked(request), Screen(json), server, detach))


def _run(request: TaskRequest, screen: Screen, server: str | None, detach: bool) -> int:
    with connect(server) as potluck:
        if not detach:
            return watch(potluck, request, screen)
        task = potluck.submit(request)
    if screen.json:
        screen.emit(task)
    else:
        screen.out.line(task.id)
        screen.err.line(f"It runs without you; `potluck logs -f {task.id[-8:]}` shows its output.")
    return 0
