"""`potluck run`: a task, from here to a device and back, with its output and exit status."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from potluck.cli.asked import Way, asked_for
from potluck.cli.fetch import check_output
from potluck.cli.inputs import Inputs, checked_inputs, uploaded
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.pick import pick_task_id
from potluck.cli.request import checked, device_needs, parse_environment, parse_labels
from potluck.cli.screen import Screen
from potluck.cli.secrets import read_secrets
from potluck.cli.story import where_shown
from potluck.cli.watch import watch
from potluck.local.template import template as named_template
from potluck.model.device import DeviceKind
from potluck.model.ids import TaskId
from potluck.model.node import SandboxStrength
from potluck.model.task import MOST_ITEMS, Limits, Requirements, TaskRequest
from potluck.model.units import parse_bytes, parse_credits, parse_milli, parse_seconds

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_DEVICE = "What it needs"
_SANDBOX = "Its walls"
_WHEN = "When it runs"
_ARRAY = "Many at once"
_KIND = "What is run, if no script"
_FILES = "Files and secrets"
_ME = "me"


def _defaults_of(context: typer.Context, name: str | None) -> str | None:
    """A template's options stand in the place of our defaults, so what is typed still wins."""
    if name is not None:
        context.default_map = named_template(name).about.options.said()
    return name


def run(
    script: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCRIPT]", help="A Python file; `-` reads stdin.", show_default=False
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]", help="For the script, untouched.", show_default=False),
    ] = None,
    command: Annotated[
        bool,
        typer.Option(
            "--command",
            help="A program of the node, such as nvidia-smi, with its arguments.",
            rich_help_panel=_KIND,
        ),
    ] = False,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="A container image; what follows is the command in it, if not its own.",
            rich_help_panel=_KIND,
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=_defaults_of,
            is_eager=True,
            help="A ready task, or the path of a folder with one; `potluck templates` lists them.",
            rich_help_panel=_KIND,
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-p",
            metavar="NAME=VALUE",
            help="Of the template; repeatable.",
            rich_help_panel=_KIND,
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Goes along, without what its .gitignore names; the task works in it.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SRC[:DST]",
            help="Goes along, for reading; DST is its name there; repeatable.",
            rich_help_panel=_FILES,
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Bring here what the task left in $POTLUCK_OUTPUT.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    checkpoint: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How often $POTLUCK_CHECKPOINT is brought to safety, for the next attempt.",
            rich_help_panel=_FILES,
        ),
    ] = "60s",
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A variable that only my own nodes get; taken from my environment, or asked for;"
            " repeatable.",
            rich_help_panel=_FILES,
            show_default=False,
        ),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WALLET",
            help="Nodes of this wallet may have the secrets too; repeatable.",
            rich_help_panel=_FILES,
            show_default=False,
        ),
    ] = None,
    secrets_to_strangers: Annotated[
        bool,
        typer.Option(
            "--secrets-to-strangers",
            help="Every node may have the secrets: whoever owns it can read them.",
            rich_help_panel=_FILES,
        ),
    ] = False,
    owner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WALLET",
            help="Only on nodes of this wallet; `me` is my own; repeatable.",
            rich_help_panel=_DEVICE,
            show_default=False,
        ),
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
    """Run a script, a command, an image or a template on a device of the pool, as if it ran here.

    Options go before SCRIPT; whatever follows it goes to the script.

    A script's dependencies are those of its PEP 723 block. What is in $POTLUCK_OUTPUT at the end
    are its files; what is in $POTLUCK_CHECKPOINT is there again if it must be tried once more.

    The exit status is the task's own; of an array, 0 if it succeeded and 1 if not.
    """
    screen = Screen(json)
    ready = None if template is None else named_template(template)
    words = [] if script is None else [script, *(arguments or ())]
    way = Way(command, image, ready, parameter or ())
    asked = asked_for(words, way, parse_environment(env or []), folder)
    inputs = checked_inputs(asked.folder, file or ())
    kind, count = device_needs(gpu, device_kind)
    request = TaskRequest(
        spec=asked.spec,
        name=name if name or ready is None else ready.name,
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
            owners=tuple(each for each in owner or () if each != _ME),
            shares_device=share,
            cores=cores,
            memory_bytes=parse_bytes(memory, "--memory"),
            disk_bytes=parse_bytes(disk, "--disk"),
        ),
        limits=Limits(
            run_seconds=parse_seconds(time, "--time"),
            stop_after_silence_seconds=_seconds(stop_after_silence, "--stop-after-silence"),
            checkpoint_seconds=parse_seconds(checkpoint, "--checkpoint"),
        ),
        priority=priority,
        max_attempts=attempts,
        start_within_seconds=_seconds(deadline, "--deadline"),
        delay_seconds=_seconds(delay, "--delay"),
        expected_seconds=_seconds(expected, "--expected"),
        items=array,
        allow_failures=allow_failures,
        secrets=read_secrets(secret or [], screen.err),
        trust=tuple(trust or ()),
        secrets_to_strangers=secrets_to_strangers,
    )
    request = checked(request)
    check_output(output)
    with connect(server) as potluck:
        if _ME in (owner or ()):
            request = _on_own_nodes(request, potluck.me().address)
        request = _sent_along(potluck, request, inputs, after or [], screen)
        if not detach:
            raise typer.Exit(watch(potluck, request, screen, output))
        submitted = potluck.submit(request)
    if json:
        screen.emit(submitted)
    else:
        screen.out.line(submitted.id)
        screen.err.line(f"It runs without you; {where_shown(submitted)}.")


def _seconds(text: str | None, option: str) -> float | None:
    return parse_seconds(text, option) if text else None


def _on_own_nodes(request: TaskRequest, wallet: str) -> TaskRequest:
    """Besides those of the wallets that were named."""
    wanted = request.requirements
    owners = (*wanted.owners, wallet)
    return replace(request, requirements=replace(wanted, owners=owners))


def _sent_along(
    potluck: "Potluck", request: TaskRequest, inputs: Inputs, after: list[str], screen: Screen
) -> TaskRequest:
    """With the tasks that come first, and with its files, which the server has from here on."""
    first = dict.fromkeys(TaskId(pick_task_id(potluck, each)) for each in after)
    spec = uploaded(potluck, request.spec, inputs, screen)
    return replace(request, spec=spec, after=tuple(first))
