"""`potluck events`: shows the events of my tasks and machines."""

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from potluck.cli.notify.notifier import Notice, Notifier, build_notifier
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.tasks.resolve_task import resolve_task_to_read, short_id
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.model.error import InvalidInput, PotluckError
from potluck.model.event import EventKind
from potluck.wire.events import EventGap, EventView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_PAGE = 200
_KINDS = ", ".join(EventKind)
_WIDEST = max(len(kind) for kind in EventKind)
_BAD = (
    *(EventKind.NODE_SILENT, EventKind.NODE_LOST, EventKind.DEVICE_SICK, EventKind.DEVICE_HOT),
    EventKind.WEBHOOK_PAUSED,
)


def events(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new events as they happen.")
    ] = False,
    kind: Annotated[
        list[EventKind] | None,
        typer.Option(
            metavar="KIND", help=f"Only this kind; repeatable: {_KINDS}.", show_default=False
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="TASK", help="Only events of this task: its id, or the end of it."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, max=10_000, help="Show at most N, the newest.")] = 20,
    notify: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOW",
            help="With -f, notify of each new event: bell, desktop, or an apprise URL (sent from"
            " this machine); repeatable.",
            show_default=False,
        ),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the events of my tasks and machines, oldest first."""
    if notify and not follow:
        raise InvalidInput("--notify reports new events only.", "Add --follow.")
    screen, query = Screen(json), _EventQuery(tuple(kind or ()), None)
    notifier = build_notifier(notify)
    with connect(server) as potluck:
        if task is not None:
            query = _EventQuery(query.kinds, resolve_task_to_read(potluck, task, screen))
        newest, head = _newest(potluck, query, limit)
        for event in reversed(newest):
            _show(screen, event)
        if follow:
            _follow(potluck, screen, query, head, notifier)
        elif not (newest or json):
            screen.err.line("No events match. Start a task with `potluck run SCRIPT`.")


class _EventQuery(NamedTuple):
    kinds: tuple[EventKind, ...]
    task_id: str | None


def _newest(
    potluck: "Potluck", query: _EventQuery, limit: int
) -> tuple[list[EventView], str | None]:
    """The events, newest first, and the head of the log at the time of the first request."""
    events: list[EventView] = []
    cursor, head = None, None
    while head is None or (cursor is not None and len(events) < limit):
        page = potluck.events.list(
            max(1, min(limit - len(events), _PAGE)),
            cursor,
            kinds=query.kinds,
            task_id=query.task_id,
            newest_first=True,
        )
        events += page.events
        cursor, head = page.next_cursor, head or page.head
    return events[:limit], head


def _follow(
    potluck: "Potluck", screen: Screen, query: _EventQuery, head: str | None, notifier: Notifier
) -> None:
    def report(error: PotluckError) -> None:
        screen.err.line(f"potluck: {error.detail} Retrying …", Tone.FAINT)

    kinds, task_id = query
    for event in potluck.events.follow(head, kinds=kinds, task_id=task_id, on_gap=report):
        if isinstance(event, EventGap):
            screen.err.line(f"potluck: {printable(event.detail)} {printable(event.hint)}", Tone.BAD)
        else:
            _show(screen, event)
            notifier.send(_notice(event), screen)


def _notice(event: EventView) -> Notice:
    is_good = _tone(event) is not Tone.BAD
    return Notice(f"Potluck: {event.kind}", printable(_sentence(event)), is_good)


def _show(screen: Screen, event: EventView) -> None:
    """One line per event, also as JSON, so that a program can process each as it arrives."""
    if screen.json:
        screen.emit(event)
        return
    moment = screen.out.paint(f"{event.at.astimezone():%Y-%m-%d %H:%M:%S}", Tone.FAINT)
    kind = screen.out.paint(f"{event.kind.value:<{_WIDEST}}", _tone(event))
    screen.out.line(f"{moment}  {kind}  {printable(_sentence(event))}".rstrip())


def _sentence(event: EventView) -> str:
    """The subject, its new state and the reason."""
    if event.task_id is not None:
        subject = f"{event.task_name or 'a task'} ({short_id(event.task_id)})"
    else:
        subject = "" if event.node_id is None else f"node {short_id(event.node_id)}"
    data = event.data
    facts = [str(data["state"])] if "state" in data else []
    if data.get("reason") and data["reason"] != "completed":
        facts.append(f"({data['reason']})")
    if event.kind.value.startswith("attempt.") and event.node_id is not None:
        facts.append(f"on node {short_id(event.node_id)}")
    if event.task_id is None:
        facts = [str(data[name]) for name in ("name", "detail", "why") if data.get(name)]
    return ": ".join(filter(None, (subject, " ".join(facts))))


def _tone(event: EventView) -> Tone:
    if event.kind is EventKind.TASK_FINISHED:
        return Tone.GOOD if event.data.get("state") == "succeeded" else Tone.BAD
    if event.kind in _BAD:
        return Tone.BAD
    return Tone.PLAIN
