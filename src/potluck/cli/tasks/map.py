"""`potluck map`: runs a task for each item of a file, or for each file that matches a pattern."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from msgspec.structs import replace

from potluck.cli.account.ensure_signed_in import SignInOptions, signed_in_client
from potluck.cli.notify.notifier import NotifyOption, build_notifier
from potluck.cli.options import (
    DetachOption,
    DryRunOption,
    JsonOption,
    OverwriteOption,
    RawOption,
    ServerOption,
    expand_option_groups,
    parse_directory,
)
from potluck.cli.request.defaults import find_project_server, get_used_defaults
from potluck.cli.request.inputs import InputFile, add_item_files
from potluck.cli.request.items import Item, ItemFormat, is_pattern, read_items
from potluck.cli.request.options import (
    MapOptions,
    TaskDraft,
    TaskWords,
    draft_task,
    prepare_request,
)
from potluck.cli.request.placeholders import build_item_inputs
from potluck.cli.request.task_kind import STDIN
from potluck.cli.results.collect_items import ItemCollector
from potluck.cli.results.fetch import OutputDirectory, output_directory
from potluck.cli.tasks.dry_run import dry_run as shown_dry
from potluck.cli.tasks.submit import submit_and_show
from potluck.cli.tasks.watch import watch
from potluck.cli.terminal.screen import Screen, printable
from potluck.model.error import InvalidInput
from potluck.model.task_spec import FunctionSpec, ScriptSpec, TaskSpec
from potluck.wire.codec import encode_json
from potluck.wire.item_file import pack

ItemsArgument = Annotated[
    str,
    typer.Argument(
        metavar="ITEMS",
        help="A file with one item per line (or .csv, .tsv, .jsonl, .json), `-` for stdin, or a"
        " quoted pattern such as 'data/*.csv'.",
        show_default=False,
    ),
]
ItemsOutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        parser=parse_directory,
        metavar="DIR",
        help="Download each item's files and output into its own directory in DIR.",
        rich_help_panel="Files and secrets",
    ),
]


@dataclass(frozen=True)
class ItemOptions:
    """How the items are read."""

    panel: ClassVar = "Many at once"

    format: Annotated[
        ItemFormat | None,
        typer.Option(help="The format of ITEMS; default: by the file name's suffix."),
    ] = None


@expand_option_groups
def map_items(
    context: typer.Context,
    reading: ItemOptions,
    task: MapOptions,
    entry: SignInOptions,
    items: ItemsArgument,
    words: TaskWords,
    output: ItemsOutputOption = None,
    overwrite: OverwriteOption = False,
    detach: DetachOption = False,
    notify: NotifyOption = None,
    dry_run: DryRunOption = False,
    raw: RawOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Run a script once for each item of a file or a pattern.

    In ARGS {} is replaced by the item, {FIELD} by one of its fields (a column, a member), and
    {item} by its number. Without ARGS the item is the only argument. $POTLUCK_ITEM_VALUE holds the
    item, $POTLUCK_FIELD_NAME its field NAME, and $POTLUCK_ITEM its number.

    With a pattern each matching file is uploaded, and the item is its path in the task's directory.

    The exit status is 0 if no more items failed than --allow-failures allows, and 1 otherwise.
    With --dry-run it is 0 if the task would start, now or later, and 1 if it never would.
    """
    screen = Screen(json, raw)
    if not (task.raw["image"] or task.raw["template"]):
        _check_script(items, words.script)
    _check_order(items, words.script)
    rows = read_items(items, reading.format, task.raw["folder"])
    draft = _with_items(draft_task(words, task.of(len(rows)), screen, is_dry_run=dry_run), rows)
    results = output_directory(output, overwrite)
    if results is not None and not (dry_run or detach):
        results.check(screen)
    collector = _collector(rows, results)
    at_the_end = build_notifier(None if detach else notify)
    with signed_in_client(screen, server, entry, find_project_server(context)) as potluck:
        if dry_run:
            raise typer.Exit(shown_dry(potluck, draft, screen, get_used_defaults(context)))
        request = prepare_request(potluck, draft, screen)
        if not detach:
            raise typer.Exit(watch(potluck, request, screen, None, at_the_end, collector))
        submit_and_show(potluck, request, screen)


def _check_script(items: str, script: str | None) -> None:
    if script is None:
        raise InvalidInput(
            f"There is no script to run for each item of {printable(items)}.",
            "Name it after the items: `potluck map ITEMS SCRIPT`, or a program:"
            " `potluck map --command ITEMS PROGRAM`.",
        )
    if script == items == STDIN:
        raise InvalidInput(
            "Both the items and the script would be read from stdin.",
            "Name a file for one of them.",
        )


def _check_order(items: str, script: str | None) -> None:
    """Refuses options after ITEMS, and a pattern that the shell has expanded, whose second file is
    then in the script's position."""
    if script is not None and script.startswith("-") and script != STDIN:
        raise InvalidInput(
            f"{printable(script)} is in the script's position.",
            "Options go before ITEMS: `potluck map [OPTIONS] ITEMS SCRIPT [ARGS]`.",
        )
    if script is None or is_pattern(items) or script.endswith(".py"):
        return
    suffix = Path(items).suffix
    if suffix and Path(script).suffix == suffix and Path(script).parent == Path(items).parent:
        raise InvalidInput(
            f"{printable(script)} is in the script's position.",
            f"Put the pattern in quotes, such as '{printable(str(Path(items).parent))}/*{suffix}',"
            " so that the shell does not expand it.",
        )


def _with_items(draft: TaskDraft, items: Sequence[Item]) -> TaskDraft:
    item_inputs = build_item_inputs(_arguments(draft.request.spec), items)
    files = [InputFile(item.file, item.value) for item in items if item.file is not None]
    inputs = add_item_files(draft.inputs, files)
    packed = pack([encode_json(item_input) for item_input in item_inputs])
    return replace(draft, inputs=replace(inputs, items=packed))


def _arguments(spec: TaskSpec) -> tuple[str, ...]:
    """The words with placeholders; a program without arguments gets the item, like a script."""
    assert not isinstance(spec, FunctionSpec), "functions do not come from a command line"
    if isinstance(spec, ScriptSpec):
        return spec.arguments
    return (*spec.command, "{}") if len(spec.command) == 1 else spec.command


def _collector(items: Sequence[Item], output: OutputDirectory | None) -> ItemCollector:
    labels = [item.label or str(number) for number, item in enumerate(items)]
    return ItemCollector(labels, [item.value for item in items], output)
