"""The lines of `potluck admin status`: a title, and cells whose colour says what needs a look."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from potluck.cli.terminal.screen import Tone
from potluck.cli.terminal.table import Cell
from potluck.model.alert import AlertState
from potluck.model.task import TaskState
from potluck.model.units import show_age, show_bytes, show_credits, show_seconds

if TYPE_CHECKING:
    from potluck.wire.status import PoolStatus

Line = tuple[str, list[Cell]]
_OLD_BACKUP = timedelta(days=2)
_MOST_REASONS = 4
_TONES = {"ok": Tone.GOOD, "degraded": Tone.WAITING}


def status_lines(status: "PoolStatus") -> Iterator[Line]:
    yield "server", _server(status)
    yield from _failing_parts(status)
    yield "alerts", _alerts(status)
    yield "instances", _instances(status)
    yield "queue", _queue(status)
    yield from _reasons(status)
    yield "running", [Cell(f"{status.running_attempts:,} attempts")]
    yield "ended", _ended(status)
    yield "nodes", _nodes(status)
    yield "devices", _devices(status)
    yield "sizes", _sizes(status)
    yield "backup", _backup(status)
    yield "ledger", _ledger(status)


def _server(status: "PoolStatus") -> list[Cell]:
    readiness = status.readiness
    return [
        Cell(readiness.status, _TONES.get(readiness.status, Tone.BAD)),
        Cell(f"Potluck {readiness.version}"),
        Cell(f"schema {status.schema_version}"),
        Cell(f"{status.at:%Y-%m-%d %H:%M:%S} UTC", Tone.FAINT),
    ]


def _failing_parts(status: "PoolStatus") -> Iterator[Line]:
    for part, state in status.readiness.parts.items():
        if state != "ok":
            yield f"  {part}", [Cell(state, Tone.BAD)]


def _alerts(status: "PoolStatus") -> list[Cell]:
    cells = [
        Cell(f"{sum(alerts.values()):,} {state}: {', '.join(alerts)}", tone)
        for state, alerts, tone in (
            (AlertState.FIRING, status.firing_alerts, Tone.BAD),
            (AlertState.PENDING, status.pending_alerts, Tone.WAITING),
        )
        if alerts
    ]
    return cells or [Cell("none", Tone.GOOD)]


def _instances(status: "PoolStatus") -> list[Cell]:
    cells = []
    for instance in status.instances:
        leads = " leads" if instance.is_leader else ""
        cells.append(
            Cell(f"{instance.id[:8]}{leads}, up {show_age(instance.started_at, status.at)}")
        )
    if not any(instance.is_leader for instance in status.instances):
        cells.append(Cell("no instance leads", Tone.BAD))
    return [*cells, Cell(f"term {status.term}", Tone.FAINT)]


def _queue(status: "PoolStatus") -> list[Cell]:
    if status.oldest_waiting_at is None:
        return [Cell("empty", Tone.GOOD)]
    oldest = show_age(status.oldest_waiting_at, status.at)
    return [Cell(f"{status.waiting_tasks:,} wait", Tone.WAITING), Cell(f"oldest {oldest}")]


def _reasons(status: "PoolStatus") -> Iterator[Line]:
    for waiting in status.queue[:_MOST_REASONS]:
        oldest = show_seconds(waiting.oldest_seconds)
        yield (
            "",
            [Cell(f"{waiting.tasks:,} {waiting.reason}"), Cell(f"oldest {oldest}", Tone.FAINT)],
        )


def _ended(status: "PoolStatus") -> list[Cell]:
    """In the last five minutes: how many a minute, and the most frequent failures."""
    total = sum(ended.tasks for ended in status.ended)
    cells = [Cell(f"{total / 5:,.0f} a minute"), Cell(f"{total:,} in 5 minutes", Tone.FAINT)]
    failed = [ended for ended in status.ended if ended.state is TaskState.FAILED]
    reasons = [f"{ended.tasks:,} {ended.reason or ended.state}" for ended in failed[:_MOST_REASONS]]
    return [*cells, *(Cell(reason, Tone.BAD) for reason in reasons)]


def _nodes(status: "PoolStatus") -> list[Cell]:
    tones = {"online": Tone.GOOD, "silent": Tone.BAD}
    cells = [
        Cell(f"{count:,} {state}", tones.get(state, Tone.PLAIN))
        for state, count in status.nodes.items()
    ]
    if status.cordoned_nodes:
        cells.append(Cell(f"{status.cordoned_nodes:,} cordoned", Tone.WAITING))
    for version, count in status.node_versions.items():
        is_other = version != status.readiness.version
        tone = Tone.WAITING if is_other else Tone.FAINT
        cells.append(Cell(f"{count:,} with {version or 'no version'}", tone))
    return cells or [Cell("none", Tone.WAITING)]


def _devices(status: "PoolStatus") -> list[Cell]:
    cells = []
    for kind, counts in sorted(status.devices.items(), reverse=True):
        text = f"{kind}: {counts.busy:,} busy, {counts.free:,} free"
        cells.append(Cell(f"{text}, {counts.away:,} away" if counts.away else text))
    return cells or [Cell("none", Tone.WAITING)]


def _sizes(status: "PoolStatus") -> list[Cell]:
    is_low = status.readiness.parts.get("disk", "ok") != "ok"
    return [
        Cell(f"database {show_bytes(status.database_bytes)}"),
        Cell(f"files {show_bytes(status.blob_bytes)}"),
        Cell(f"{status.readiness.free_gib:,} GiB free", Tone.BAD if is_low else Tone.PLAIN),
    ]


def _backup(status: "PoolStatus") -> list[Cell]:
    backup = status.backup
    running = [Cell("one is running", Tone.BUSY)] if backup.is_running else []
    if backup.latest_at is None:
        return [Cell("none; see `potluck admin backup`", Tone.BAD), *running]
    is_old = status.at - backup.latest_at > _OLD_BACKUP
    cells = [
        Cell(f"{show_age(backup.latest_at, status.at)} old", Tone.BAD if is_old else Tone.GOOD)
    ]
    if backup.size_bytes is not None:
        cells.append(Cell(show_bytes(backup.size_bytes)))
    if backup.missing_blobs:
        cells.append(Cell(f"{backup.missing_blobs:,} files missing", Tone.BAD))
    return [*cells, *running]


def _ledger(status: "PoolStatus") -> list[Cell]:
    total = status.ledger_sum_micro
    if total is None:
        return [Cell("not summed: it takes too long", Tone.FAINT)]
    if total == 0:
        return [Cell("sums to zero", Tone.GOOD)]
    return [Cell(f"sums to {show_credits(total)} instead of zero", Tone.BAD)]
