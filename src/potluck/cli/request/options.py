"""Makes typer options from the table of task options, and a request from their values."""

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import replace

from potluck.cli.completion import complete_task_ids, complete_template_names
from potluck.cli.options import parse_directory
from potluck.cli.request.inputs import (
    RequestInputs,
    add_placeholder_inputs,
    check_inputs,
    has_piped_input,
    read_secrets,
    read_stdin,
    stub_secrets,
    upload_inputs,
)
from potluck.cli.request.task_kind import STDIN, KindOptions, add_packages, build_spec
from potluck.cli.tasks.resolve_task import resolve_task_id
from potluck.cli.terminal.screen import Screen, Tone
from potluck.local.request_builder import build_request, is_for_own_nodes
from potluck.local.task_options import OPTIONS, TaskOption
from potluck.local.template import find_template as named_template
from potluck.model.error import InvalidInput
from potluck.model.ids import TaskId
from potluck.model.task import TaskRequest

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def _template_defaults(context: typer.Context, name: str | None) -> str | None:
    """A template's options replace the defaults, so that options on the command line win."""
    if name is not None and not context.resilient_parsing:
        options = named_template(name).about.options
        values = {OPTIONS[option].keyword: value for option, value in options.items()}
        context.default_map = {**(context.default_map or {}), **values}
    return name


# Settings that only a command line has.
_TYPER: dict[str, dict[str, Any]] = {
    "template": {
        "callback": _template_defaults,
        "is_eager": True,
        "autocompletion": complete_template_names,
    },
    "after": {"autocompletion": complete_task_ids},
    "folder": {"parser": parse_directory},
}
_OTHER_NAMES = {"parameter": "-p", "stdin": "-i", "dependencies": "--with"}


def option_info(name: str, panel: str | None = None) -> Any:
    """The typer option of a row of the table."""
    row = OPTIONS[name]
    kind = row.kind
    return typer.Option(
        *filter(None, (f"--{name}", _OTHER_NAMES.get(name))),
        help=row.typed_help,
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
    """The words after the options: the script and its arguments."""

    script: Annotated[
        str | None,
        typer.Argument(metavar="SCRIPT", help="A Python file; `-` is stdin.", show_default=False),
    ] = None
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Arguments of the script.", show_default=False),
    ] = None

    @property
    def all(self) -> list[str]:
        return [] if self.script is None else [self.script, *(self.arguments or ())]


@dataclass(init=False)
class TaskOptions:
    """The values of the options by their keywords, as typed or by default."""

    raw: dict[str, Any]
    __signature__ = _signature()

    def __init__(self, **values: Any) -> None:
        self.raw = values

    def values(self) -> dict[str, Any]:
        """The parsed values by the names of the options."""
        return {
            row.name: row.kind.parse(self.raw[row.keyword], option_name(row.name))
            for row in OPTIONS.values()
            if self.raw.get(row.keyword) is not None
        }


class MapOptions(TaskOptions):
    """The options of `map`, which counts the items instead of taking --array."""

    __signature__ = _signature(without="array")

    def of(self, count: int) -> TaskOptions:
        return TaskOptions(**self.raw, array=count)


def option_name(name: str) -> str:
    return f"--{name}"


class TaskDraft(Struct, frozen=True):
    """A valid request, and what has to be uploaded or resolved before it is submitted."""

    request: TaskRequest
    inputs: RequestInputs
    after: tuple[str, ...] = ()
    on_own_nodes: bool = False


def draft_task(
    words: TaskWords, options: TaskOptions, screen: Screen, *, is_dry_run: bool = False
) -> TaskDraft:
    """Reports all mistakes that are visible on this machine before anything is sent.

    A dry run asks for no secrets.
    """
    values = options.values()
    template = named_template(values["template"]) if "template" in values else None
    kind = KindOptions(
        values["command"], values.get("image"), template, values.get("parameter", ())
    )
    _check_stdin(words, kind, values, screen)
    spec, folder = build_spec(words.all, kind, values.get("env", {}), values.get("folder"))
    spec = add_packages(spec, values, screen.err)
    inputs = check_inputs(folder, values.get("file", ()))
    secrets = list(values.pop("secret", ()))
    values["secret"] = stub_secrets(secrets) if is_dry_run else read_secrets(secrets, screen.err)
    if values["stdin"]:  # last, since it may be typed
        inputs = replace(inputs, stdin=b"" if is_dry_run else read_stdin())
    after = values.pop("after", ())
    if template is not None:
        values.setdefault("name", template.name)
        for hint in template.hints:
            screen.err.prose(f"potluck: {hint}", Tone.WAITING)
    request = build_request(spec, values, option_name)
    return TaskDraft(request, inputs, after, is_for_own_nodes(values))


def _check_stdin(
    words: TaskWords, kind: KindOptions, values: dict[str, Any], screen: Screen
) -> None:
    """Refuses --stdin where nothing could read it; without it, mentions input that is not sent."""
    is_array = values.get("array") is not None
    is_script = words.script == STDIN and kind == KindOptions()
    if values["stdin"] and is_array:
        raise InvalidInput(
            "Many items cannot share one stdin.",
            "Send a file with --file, and let each item open it by its name.",
        )
    if values["stdin"] and is_script:
        raise InvalidInput(
            "Both the script and its stdin would be read from stdin.", "Name a file as the script."
        )
    if not (values["stdin"] or is_array or is_script) and has_piped_input():
        screen.err.prose(
            "potluck: the piped input is not sent, and the task's stdin is empty. Send it with"
            " --stdin (-i).",
            Tone.WAITING,
        )


def prepare_request(potluck: "Potluck", draft: TaskDraft, screen: Screen) -> TaskRequest:
    """Uploads the inputs and returns the request for submission."""
    request = _resolve(potluck, draft)
    return replace(request, spec=upload_inputs(potluck, request.spec, draft.inputs, screen))


def prepare_estimate(potluck: "Potluck", draft: TaskDraft) -> TaskRequest:
    """The request for an estimate, without uploading its inputs."""
    request = _resolve(potluck, draft)
    return replace(request, spec=add_placeholder_inputs(request.spec, draft.inputs))


def _resolve(potluck: "Potluck", draft: TaskDraft) -> TaskRequest:
    """Adds the user's own address and the ids of the tasks to wait for."""
    requirements = draft.request.requirements
    if draft.on_own_nodes:
        owners = (*requirements.owners, potluck.account.me().address)
        requirements = replace(requirements, owners=owners)
    after = dict.fromkeys(TaskId(resolve_task_id(potluck, text)) for text in draft.after)
    return replace(draft.request, requirements=requirements, after=tuple(after))
