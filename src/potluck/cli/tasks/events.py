"""`potluck events`: what happens to what is mine."""

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.tasks.resolve_task import pick_to_read, short_id
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.model.error import PotluckError
from potluck.model.event import EventKind
from potluck.wire.events import EventGap, EventView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_PAGE = 200
_KINDS = ", ".join(EventKind)
_WIDEST = max(len(kind) for kind in EventKind)
_WEBHOOK = (EventKind.WEBHOOK_PAUSED, EventKind.WEBHOOK_TEST)


def events(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens from now on.")
    ] = False,
    kind: Annotated[
        list[EventKind] | None,
        typer.Option(
            metavar="KIND", help=f"Only these, of: {_KINDS}. Repeat it.", show_default=False
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="TASK", help="Only of this task: an id, or an end of one."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, max=10_000, help="So many of the newest.")] = 20,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show what happened to my tasks and machines, oldest first."""
    screen, wanted = Screen(json), _EventChoice(tuple(kind or ()), None)
    with connect(server) as potluck:
        if task is not None:
            wanted = _EventChoice(wanted.kinds, pick_to_read(potluck, task, screen))
        found, head = _newest(potluck, wanted, limit)
        for event in reversed(found):
            _tell(screen, event)
        if follow:
            _follow(potluck, screen, wanted, head)
        elif not (found or json):
            screen.err.line("Nothing of that has happened. Start something: `potluck run SCRIPT`.")


class _EventChoice(NamedTuple):
    kinds: tuple[EventKind, ...]
    task_id: str | None


def _newest(
    potluck: "Potluck", wanted: _EventChoice, limit: int
) -> tuple[list[EventView], str | None]:
    """Newest first, and the position behind all that there was before the first was asked for."""
    found: list[EventView] = []
    cursor, head = None, None
    while head is None or (cursor is not None and len(found) < limit):
        page = potluck.events.list(
            max(1, min(limit - len(found), _PAGE)),
            cursor,
            kinds=wanted.kinds,
            task_id=wanted.task_id,
            newest_first=True,
        )
        found += page.events
        cursor, head = page.next_cursor, head or page.head
    return found[:limit], head


def _follow(potluck: "Potluck", screen: Screen, wanted: _EventChoice, head: str | None) -> None:
    def broken(error: PotluckError) -> None:
        screen.err.line(f"potluck: {error.detail} Trying again …", Tone.FAINT)

    stream = potluck.events.follow(head, kinds=wanted.kinds, task_id=wanted.task_id, on_gap=broken)
    for said in stream:
        if isinstance(said, EventGap):
            screen.err.line(f"potluck: {printable(said.detail)} {printable(said.hint)}", Tone.BAD)
        else:
            _tell(screen, said)


def _tell(screen: Screen, event: EventView) -> None:
    """A line for each, also as JSON: a program that reads them need not wait for the last."""
    if screen.json:
        screen.emit(event)
        return
    moment = screen.out.paint(f"{event.at.astimezone():%Y-%m-%d %H:%M:%S}", Tone.FAINT)
    kind = screen.out.paint(f"{event.kind.value:<{_WIDEST}}", _tone(event))
    screen.out.line(f"{moment}  {kind}  {printable(_sentence(event))}".rstrip())


def _sentence(event: EventView) -> str:
    """What it is about, what became of it, and why."""
    if event.task_id is not None:
        about = f"{event.task_name or 'a task'} ({short_id(event.task_id)})"
    else:
        about = "" if event.node_id is None else f"node {short_id(event.node_id)}"
    said = event.data
    facts = [str(said["state"])] if "state" in said else []
    if said.get("reason") and said["reason"] != "completed":
        facts.append(f"({said['reason']})")
    if event.kind.value.startswith("attempt.") and event.node_id is not None:
        facts.append(f"on node {short_id(event.node_id)}")
    if event.kind in _WEBHOOK:
        facts = [str(said[name]) for name in ("name", "detail") if said.get(name)]
    return ": ".join(each for each in (about, " ".join(facts)) if each)


def _tone(event: EventView) -> Tone:
    if event.kind is EventKind.TASK_FINISHED:
        return Tone.GOOD if event.data.get("state") == "succeeded" else Tone.BAD
    if event.kind in (EventKind.NODE_SILENT, EventKind.DEVICE_SICK, EventKind.WEBHOOK_PAUSED):
        return Tone.BAD
    return Tone.PLAIN
