"""`potluck map`: the same for each item of a file, or for each file that a pattern names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from msgspec.structs import replace

from potluck.cli.account.ensure_signed_in import EntryOptions, entered
from potluck.cli.notify.notifier import NotifyOption, notifier
from potluck.cli.option_groups import grouped
from potluck.cli.options import DetachOption, DryRunOption, JsonOption, ServerOption, directory
from potluck.cli.request.defaults import defaults_used, project_server
from potluck.cli.request.inputs import InputFile, with_item_files
from potluck.cli.request.items import Item, ItemFormat, is_pattern, read_items
from potluck.cli.request.options import (
    MapOptions,
    TaskDraft,
    TaskWords,
    drafted,
    sent_along,
)
from potluck.cli.request.placeholders import given
from potluck.cli.request.script import STDIN
from potluck.cli.results.collect_items import Gathering
from potluck.cli.tasks.dry_run import dry_run as shown_dry
from potluck.cli.tasks.submit import tell_submitted
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
        help="A file with an item a line (or .csv, .tsv, .jsonl, .json), `-` for stdin, or a"
        " pattern in quotes such as 'data/*.csv'.",
        show_default=False,
    ),
]
ItemsOutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        parser=directory,
        metavar="DIR",
        help="Bring here what each item left and wrote, in a directory of its own.",
        rich_help_panel="Files and secrets",
    ),
]


@dataclass(frozen=True)
class ItemOptions:
    """How the items are read."""

    panel: ClassVar = "Many at once"

    format: Annotated[
        ItemFormat | None,
        typer.Option(help="How ITEMS is read, if not by the end of its name."),
    ] = None


@grouped
def map_items(
    context: typer.Context,
    reading: ItemOptions,
    task: MapOptions,
    entry: EntryOptions,
    items: ItemsArgument,
    words: TaskWords,
    output: ItemsOutputOption = None,
    detach: DetachOption = False,
    notify: NotifyOption = None,
    dry_run: DryRunOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Run a script once for each item of a file or a pattern.

    In ARGS {} stands for the item, {FIELD} for a field of it (a column, a member), {item} for its
    number. Without ARGS the item is the one argument. It is in $POTLUCK_ITEM_VALUE too, its fields
    are in $POTLUCK_FIELD_NAME, and $POTLUCK_ITEM is its number.

    With a pattern each file goes along, and the item is its path there.

    The exit status is 0 if it succeeded, no more items having failed than --allow-failures allows,
    and 1 if not. With --dry-run it is 0 if it would start, now or later, and 1 if it never would.
    """
    screen = Screen(json)
    if not (task.said["image"] or task.said["template"]):
        _check_script(items, words.script)
    _check_order(items, words.script)
    found = read_items(items, reading.format, task.said["folder"])
    draft = _with_items(drafted(words, task.of(len(found)), screen, is_meant=not dry_run), found)
    gathering = _gathering(found, output)
    gathering.check_room()
    at_the_end = notifier(None if detach else notify)
    with entered(screen, server, entry, project_server(context)) as potluck:
        if dry_run:
            raise typer.Exit(shown_dry(potluck, draft, screen, defaults_used(context)))
        request = sent_along(potluck, draft, screen)
        if not detach:
            raise typer.Exit(watch(potluck, request, screen, None, at_the_end, gathering))
        submitted = potluck.tasks.submit(request)
    tell_submitted(submitted, screen)


def _check_script(items: str, script: str | None) -> None:
    """There is one, and it is not where the items come from."""
    if script is None:
        raise InvalidInput(
            f"No script is named that is to run for each item of {printable(items)}.",
            "Name it behind the items: `potluck map ITEMS SCRIPT`, or a program:"
            " `potluck map --command ITEMS PROGRAM`.",
        )
    if script == items == STDIN:
        raise InvalidInput(
            "Both the items and the script would be read from stdin.",
            "Name a file for one of them.",
        )


def _check_order(items: str, script: str | None) -> None:
    """Options that come too late; and a shell that filled the pattern in itself, which leaves its
    second file in the script's place."""
    if script is not None and script.startswith("-") and script != STDIN:
        raise InvalidInput(
            f"{printable(script)} is where the script should stand.",
            "Options go before ITEMS: `potluck map [OPTIONS] ITEMS SCRIPT [ARGS]`.",
        )
    if script is None or is_pattern(items) or script.endswith(".py"):
        return
    suffix = Path(items).suffix
    if suffix and Path(script).suffix == suffix and Path(script).parent == Path(items).parent:
        raise InvalidInput(
            f"{printable(script)} is where the script should stand.",
            f"Put the pattern in quotes, such as '{printable(str(Path(items).parent))}/*{suffix}',"
            " so that the shell leaves it as it is.",
        )


def _with_items(draft: TaskDraft, items: Sequence[Item]) -> TaskDraft:
    own = given(_words(draft.request.spec), items)
    files = [InputFile(item.file, item.value) for item in items if item.file is not None]
    inputs = with_item_files(draft.inputs, files)
    packed = pack([encode_json(each) for each in own])
    return replace(draft, inputs=replace(inputs, items=packed))


def _words(spec: TaskSpec) -> tuple[str, ...]:
    """Those that an item may have its own of; a program alone is given the item, as a script is."""
    assert not isinstance(spec, FunctionSpec), "nobody types a function"
    if isinstance(spec, ScriptSpec):
        return spec.arguments
    return (*spec.command, "{}") if len(spec.command) == 1 else spec.command


def _gathering(items: Sequence[Item], directory: Path | None) -> Gathering:
    labels = [item.label or str(number) for number, item in enumerate(items)]
    return Gathering(labels, [item.value for item in items], directory)
