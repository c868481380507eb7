"""The options of a task on a command line, made from the table, and the request they come to."""

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import replace

from potluck.cli.completion import task_ids, template_names
from potluck.cli.options import directory
from potluck.cli.request.inputs import (
    RequestInputs,
    checked_inputs,
    supposed,
    uploaded,
)
from potluck.cli.request.secrets import named_secrets, read_secrets
from potluck.cli.request.task_kind import Way, asked_for
from potluck.cli.tasks.resolve_task import pick_task_id
from potluck.cli.terminal.screen import Screen, Tone
from potluck.local.request_builder import build_request, is_for_own_nodes
from potluck.local.task_options import OPTIONS, TaskOption
from potluck.local.template import template as named_template
from potluck.model.ids import TaskId
from potluck.model.task import TaskRequest

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def _template_defaults(context: typer.Context, name: str | None) -> str | None:
    """A template's options replace our defaults, so what is typed still wins."""
    if name is not None and not context.resilient_parsing:
        options = named_template(name).about.options
        said = {OPTIONS[each].keyword: value for each, value in options.items()}
        context.default_map = {**(context.default_map or {}), **said}
    return name


# What only a command line has.
_TYPER: dict[str, dict[str, Any]] = {
    "template": {
        "callback": _template_defaults,
        "is_eager": True,
        "autocompletion": template_names,
    },
    "after": {"autocompletion": task_ids},
    "folder": {"parser": directory},
}
_SHORT = {"parameter": "-p"}


def option_info(name: str, panel: str | None = None) -> Any:
    """What typer is told of an option of the table."""
    row = OPTIONS[name]
    kind = row.kind
    return typer.Option(
        *filter(None, (f"--{name}", _SHORT.get(name))),
        help=row.help,
        metavar=row.metavar or kind.metavar,
        min=kind.least,
        max=kind.most,
        show_default=not kind.is_list,
        rich_help_panel=panel,
        **_TYPER.get(name, {}),
    )


def _parameter(row: TaskOption) -> inspect.Parameter:
    kind = list[str] if row.kind.is_list else row.kind.type
    default = False if kind is bool else row.default
    return inspect.Parameter(
        row.keyword,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind | None, option_info(row.name, row.panel)],
        default=default,
    )


def _signature(without: str = "") -> inspect.Signature:
    rows = [row for row in OPTIONS.values() if row.is_of_task and row.name != without]
    return inspect.Signature([_parameter(row) for row in rows])


@dataclass(frozen=True)
class TaskWords:
    """The words behind the options: what is run, and with which arguments."""

    script: Annotated[
        str | None,
        typer.Argument(metavar="SCRIPT", help="A Python file; `-` is stdin.", show_default=False),
    ] = None
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="For the script, untouched.", show_default=False),
    ] = None

    @property
    def all(self) -> list[str]:
        return [] if self.script is None else [self.script, *(self.arguments or ())]


@dataclass(init=False)
class TaskOptions:
    """What was typed, or stands in its place, by the keywords of the options."""

    said: dict[str, Any]
    __signature__ = _signature()

    def __init__(self, **said: Any) -> None:
        self.said = said

    def values(self) -> dict[str, Any]:
        """As the request has them, by the names of the options."""
        return {
            row.name: row.kind.parse(self.said[row.keyword], typed_name(row.name))
            for row in OPTIONS.values()
            if self.said.get(row.keyword) is not None
        }


class MapOptions(TaskOptions):
    """Those of a map, whose items are counted and not typed."""

    __signature__ = _signature(without="array")

    def of(self, count: int) -> TaskOptions:
        return TaskOptions(**self.said, array=count)


def typed_name(name: str) -> str:
    return f"--{name}"


class TaskDraft(Struct, frozen=True):
    """A request that the server would take, and what is to be sent before it."""

    request: TaskRequest
    inputs: RequestInputs
    after: tuple[str, ...] = ()
    on_own_nodes: bool = False


def drafted(
    words: TaskWords, said: TaskOptions, screen: Screen, *, is_meant: bool = True
) -> TaskDraft:
    """Every mistake that can be seen from here is told here, before anything is sent.

    What is not meant, but only asked about, needs no secrets.
    """
    values = said.values()
    ready = named_template(values["template"]) if "template" in values else None
    way = Way(values["command"], values.get("image"), ready, values.get("parameter", ()))
    asked = asked_for(words.all, way, values.get("env", {}), values.get("folder"))
    inputs = checked_inputs(asked.folder, values.get("file", ()))
    named = list(values.pop("secret", ()))
    values["secret"] = read_secrets(named, screen.err) if is_meant else named_secrets(named)
    after = values.pop("after", ())
    if ready is not None:
        values.setdefault("name", ready.name)
        for hint in ready.hints:
            screen.err.prose(f"potluck: {hint}", Tone.WAITING)
    request = build_request(asked.spec, values, typed_name)
    return TaskDraft(request, inputs, after, is_for_own_nodes(values))


def sent_along(potluck: "Potluck", draft: TaskDraft, screen: Screen) -> TaskRequest:
    """With the tasks that come first, and with its files, which the server has from here on."""
    request = _placed(potluck, draft)
    return replace(request, spec=uploaded(potluck, request.spec, draft.inputs, screen))


def unsent(potluck: "Potluck", draft: TaskDraft) -> TaskRequest:
    """The same as far as a server need know it to say what would become of it."""
    request = _placed(potluck, draft)
    return replace(request, spec=supposed(request.spec, draft.inputs))


def _placed(potluck: "Potluck", draft: TaskDraft) -> TaskRequest:
    wanted = draft.request.requirements
    if draft.on_own_nodes:
        wanted = replace(wanted, owners=(*wanted.owners, potluck.account.me().address))
    first = dict.fromkeys(TaskId(pick_task_id(potluck, each)) for each in draft.after)
    return replace(draft.request, requirements=wanted, after=tuple(first))
