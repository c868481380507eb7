"""Writes the Grafana dashboard: `make dashboard`.

A panel is a title, a unit and queries; their places follow from their order. Panels of pool-wide
gauges take the maximum, since only the instance that leads exports them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

PATH = Path(__file__).parent.parent / "deploy" / "grafana" / "potluck.json"
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 24
_RATE = "[$__rate_interval]"


class Query(Struct, frozen=True):
    expression: str
    legend: str = ""


class Panel(Struct, frozen=True):
    title: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    description: str = ""


class Row(Struct, frozen=True):
    title: str
    panels: tuple[Panel, ...]


def _one(title: str, unit: str, expression: str, legend: str = "", **more: Any) -> Panel:
    return Panel(title, unit, (Query(expression, legend),), **more)


def _quantiles(title: str, metric: str, by: str = "") -> Panel:
    labels = f"le, {by}" if by else "le"
    shares = (0.5, 0.99) if not by else (0.99,)
    queries = [
        Query(
            f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket{_RATE})))",
            f"{{{{{by}}}}}" if by else f"p{share * 100:g}",
        )
        for share in shares
    ]
    return Panel(title, "s", tuple(queries))


def _per_second(title: str, metric: str, by: str, **more: Any) -> Panel:
    return _one(title, "ops", f"sum by ({by}) (rate({metric}{_RATE}))", f"{{{{{by}}}}}", **more)


ROWS = (
    Row(
        "Now",
        (
            _one("Instances that lead", "none", "sum(potluck_leading)", kind="stat"),
            _one("Nodes online", "none", 'max(potluck_nodes{state="online"})', kind="stat"),
            _one("Tasks waiting", "none", "sum(max by (priority, reason) (potluck_queue_tasks))",
                 kind="stat"),
            _one("Attempts", "none", "max by (state) (potluck_attempts)", "{{state}}", kind="stat"),
            _one("Parts that fail", "none", "count by (part) (potluck_part_working < 1)",
                 "{{part}}", kind="stat"),
            _one("Ledger imbalance (credits)", "none", "max(potluck_ledger_imbalance_credits)",
                 kind="stat"),
        ),
    ),
    Row(
        "Objectives",
        (
            Panel("Submissions not acknowledged in 1 s", "percentunit", (
                Query("potluck:acknowledgement_misses:ratio_rate1h", "1 h"),
                Query("potluck:acknowledgement_misses:ratio_rate6h", "6 h"),
                Query("potluck:acknowledgement_misses:ratio_rate3d", "3 d"),
            ), description="The objective is 0.1 % over 30 days."),
            Panel("Tasks that fit and did not start in 10 s", "percentunit", (
                Query("potluck:start_misses:ratio_rate1h", "1 h"),
                Query("potluck:start_misses:ratio_rate6h", "6 h"),
                Query("potluck:start_misses:ratio_rate3d", "3 d"),
            ), description="The objective is 1 % over 30 days."),
            _quantiles("From submission to start, tasks that fit", "potluck_task_start_seconds"),
        ),
    ),
    Row(
        "Requests",
        (
            _per_second("Requests by status", "potluck_http_requests_total", "status"),
            _per_second("Requests by route", "potluck_http_requests_total", "route"),
            _quantiles("Time by route, p99", "potluck_http_request_duration_seconds", "route"),
            _quantiles("Acknowledgement of submissions", "potluck_task_acknowledgement_seconds"),
            _one("Open requests", "none", "sum by (instance) (potluck_http_requests_open)",
                 "{{instance}}"),
            _one("Errors", "percentunit", "potluck:http_errors:ratio_rate5m", "5xx"),
        ),
    ),
    Row(
        "Work",
        (
            _one("Waiting tasks by reason", "none",
                 "sum by (reason) (max by (priority, reason) (potluck_queue_tasks))", "{{reason}}"),
            _one("Waiting tasks by priority", "none",
                 "sum by (priority) (max by (priority, reason) (potluck_queue_tasks))",
                 "{{priority}}"),
            _one("Oldest waiting task by reason", "s",
                 "max by (reason) (potluck_queue_oldest_seconds)", "{{reason}}"),
            _per_second("Tasks that enter the queue", "potluck_tasks_queued_total", "cause"),
            _per_second("Tasks that end", "potluck_tasks_finished_total", "state"),
            _per_second("Attempts by end reason", "potluck_attempts_ended_total", "reason"),
            _one("Lost leases", "ops",
                 f'sum(rate(potluck_attempts_ended_total{{reason="lease_expired"}}{_RATE}))'),
            _per_second("Webhook deliveries", "potluck_webhook_deliveries_total", "outcome"),
            _one("Outbox lag", "s", "max(potluck_outbox_lag_seconds)"),
        ),
    ),
    Row(
        "Scheduler and leader",
        (
            _quantiles("Rounds", "potluck_scheduler_round_seconds"),
            _quantiles("Planning", "potluck_scheduler_plan_seconds"),
            _per_second("Decisions", "potluck_scheduler_decisions_total", "outcome"),
            _one("Leader term", "none", "potluck:leader_term:max"),
            _one("Leading", "none", "max by (instance) (potluck_leading)", "{{instance}}"),
            Panel("Found by checks, in an hour", "none", (
                Query("sum(increase(potluck_invariant_violations_total[1h]))", "violations"),
                Query("sum(increase(potluck_memory_differences_total[1h]))", "differences"),
            )),
        ),
    ),
    Row(
        "Nodes and devices",
        (
            _one("Nodes by state", "none", "max by (state) (potluck_nodes)", "{{state}}"),
            _one("Devices by state", "none", "max by (kind, state) (potluck_devices)",
                 "{{kind}} {{state}}"),
            _one("Utilisation", "percentunit", "potluck:devices:utilisation_ratio", "{{kind}}"),
            _one("Temperature of devices, p99", "celsius",
                 "histogram_quantile(0.99, sum by (le)"
                 f" (rate(potluck_device_temperature_celsius_bucket{_RATE})))"),
            _one("GPU utilisation", "percentunit", "potluck_gpu_utilisation_ratio",
                 "{{modelName}} {{UUID}}"),
            _one("Sandbox starts, p99", "s",
                 "histogram_quantile(0.99, sum by (le, driver)"
                 f" (rate(potluck_provider_sandbox_start_seconds_bucket{_RATE})))", "{{driver}}"),
            _one("What providers have not delivered", "bytes",
                 "sum by (instance, kind) (potluck_provider_spool_bytes)",
                 "{{instance}} {{kind}}"),
        ),
    ),
    Row(
        "Credit",
        (
            _one("Balances (credits)", "none", "max by (purse) (potluck_ledger_credits)",
                 "{{purse}}"),
            _one("Moved (credits a second)", "none",
                 f"sum by (kind) (rate(potluck_ledger_moved_credits_total{_RATE}))", "{{kind}}"),
        ),
    ),
    Row(
        "Database and process",
        (
            _one("Statements: time by name", "s",
                 f"topk(10, sum by (query) (rate(potluck_database_statement_seconds_sum{_RATE})))",
                 "{{query}}", description="Seconds of statements in each second."),
            _one("Statements: mean by name", "s",
                 f"topk(10, sum by (query) (rate(potluck_database_statement_seconds_sum{_RATE}))"
                 f" / sum by (query) (rate(potluck_database_statement_seconds_count{_RATE})))",
                 "{{query}}"),
            Panel("Connections", "none", (
                Query("sum by (instance) (potluck_database_connections_used)", "{{instance}} used"),
                Query("sum by (instance) (potluck_database_connections)", "{{instance}} size"),
            )),
            _one("Waiting for connections", "s",
                 f"sum(rate(potluck_database_connection_wait_seconds_total{_RATE}))"),
            _quantiles("Event loop lag", "potluck_event_loop_lag_seconds"),
            _one("CPU", "percentunit",
                 f"sum by (instance) (rate(process_cpu_seconds_total{_RATE}))", "{{instance}}"),
            _one("Memory", "bytes", "sum by (instance) (process_resident_memory_bytes)",
                 "{{instance}}"),
            _one("Open files", "none", "sum by (instance) (process_open_fds)", "{{instance}}"),
            _one("Free disk", "bytes", "min by (instance) (potluck_disk_free_bytes)",
                 "{{instance}}"),
        ),
    ),
)  # fmt: skip


def dashboard() -> dict[str, Any]:
    return {
        "uid": "potluck",
        "title": "Potluck",
        "tags": ["potluck"],
        "schemaVersion": 36,
        "version": 1,
        "editable": True,
        "timezone": "",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "annotations": {"list": []},
        "templating": {"list": [_datasource_choice()]},
        "panels": list(_panels()),
    }


def _datasource_choice() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
        "refresh": 1,
    }


def _panels() -> Iterator[dict[str, Any]]:
    """Rows of three panels, each row of the dashboard below a heading."""
    number, top = 0, 0
    for row in ROWS:
        number += 1
        place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False,
               "gridPos": place, "panels": []}  # fmt: skip
        top += 1
        in_line = _COLUMNS // _WIDTH
        for index, panel in enumerate(row.panels):
            number += 1
            line, column = divmod(index, in_line)
            place = {"x": column * _WIDTH, "y": top + line * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            yield _panel(number, panel, place)
        top += -(-len(row.panels) // in_line) * _HEIGHT


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    is_graph = panel.kind == "timeseries"
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": legend, "tooltip": {"mode": "multi"}} if is_graph else {},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _DATASOURCE,
                "expr": query.expression,
                "legendFormat": query.legend or panel.title,
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def dashboard_text() -> str:
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    PATH.write_text(dashboard_text())


if __name__ == "__main__":
    main()
