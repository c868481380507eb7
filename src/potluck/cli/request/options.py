"""All that can be said of a task on a command line, and the request that it comes to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from potluck.cli.request.array import ArrayOptions
from potluck.cli.request.check import checked, parse_environment
from potluck.cli.request.devices import DeviceOptions
from potluck.cli.request.inputs import Inputs, checked_inputs, supposed, uploaded
from potluck.cli.request.inputs_options import SentOptions
from potluck.cli.request.kinds import KindOptions
from potluck.cli.request.limits import WallOptions
from potluck.cli.request.secrets import named_secrets, read_secrets
from potluck.cli.request.task_kind import asked_for
from potluck.cli.request.timing import TimingOptions
from potluck.cli.tasks.resolve_task import pick_task_id
from potluck.cli.terminal.screen import Screen
from potluck.model.ids import TaskId
from potluck.model.task import Limits, TaskRequest
from potluck.model.units import parse_seconds

if TYPE_CHECKING:
    from potluck.consumer import Potluck


@dataclass(frozen=True)
class TaskOptions:
    kind: KindOptions
    sent: SentOptions
    devices: DeviceOptions
    walls: WallOptions
    many: ArrayOptions
    timing: TimingOptions
    name: Annotated[str | None, typer.Option(help="Instead of the file's name.")] = None


class Draft(Struct, frozen=True):
    """A request that the server would take, and what is to be sent before it."""

    request: TaskRequest
    inputs: Inputs
    after: tuple[str, ...] = ()
    on_own_nodes: bool = False


def drafted(
    words: Sequence[str], said: TaskOptions, screen: Screen, *, is_meant: bool = True
) -> Draft:
    """Every mistake that can be seen from here is told here, before anything is sent.

    What is not meant, but only asked about, needs no secrets.
    """
    sent, walls, timing = said.sent, said.walls, said.timing
    way = said.kind.way()
    asked = asked_for(words, way, parse_environment(said.kind.env or []), sent.folder)
    inputs = checked_inputs(asked.folder, sent.file or ())
    words_of = sent.secret or []
    secrets = read_secrets(words_of, screen.err) if is_meant else named_secrets(words_of)
    request = TaskRequest(
        spec=asked.spec,
        name=said.name if said.name or way.template is None else way.template.name,
        requirements=said.devices.requirements(walls),
        limits=Limits(
            run_seconds=parse_seconds(walls.time, "--time"),
            stop_after_silence_seconds=_seconds(walls.stop_after_silence, "--stop-after-silence"),
            checkpoint_seconds=parse_seconds(sent.checkpoint, "--checkpoint"),
        ),
        priority=timing.priority,
        max_attempts=timing.attempts,
        start_within_seconds=_seconds(timing.deadline, "--deadline"),
        delay_seconds=_seconds(timing.delay, "--delay"),
        expected_seconds=_seconds(timing.expected, "--expected"),
        items=said.many.array,
        allow_failures=said.many.allow_failures,
        secrets=secrets,
        trust=tuple(sent.trust or ()),
        secrets_to_strangers=sent.secrets_to_strangers,
    )
    after = tuple(timing.after or ())
    return Draft(checked(request), inputs, after, said.devices.on_own_nodes)


def _seconds(text: str | None, option: str) -> float | None:
    return parse_seconds(text, option) if text else None


def sent_along(potluck: "Potluck", draft: Draft, screen: Screen) -> TaskRequest:
    """With the tasks that come first, and with its files, which the server has from here on."""
    request = _placed(potluck, draft)
    return replace(request, spec=uploaded(potluck, request.spec, draft.inputs, screen))


def unsent(potluck: "Potluck", draft: Draft) -> TaskRequest:
    """The same as far as a server need know it to say what would become of it."""
    request = _placed(potluck, draft)
    return replace(request, spec=supposed(request.spec, draft.inputs))


def _placed(potluck: "Potluck", draft: Draft) -> TaskRequest:
    wanted = draft.request.requirements
    if draft.on_own_nodes:
        wanted = replace(wanted, owners=(*wanted.owners, potluck.account.me().address))
    first = dict.fromkeys(TaskId(pick_task_id(potluck, each)) for each in draft.after)
    return replace(draft.request, requirements=wanted, after=tuple(first))
