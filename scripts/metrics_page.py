"""docs/metrics.md: every metric, from the tables of the server and the provider."""

from collections.abc import Sequence
from typing import Final

from potluck.local.metrics.definition import MetricDefinition
from potluck.provider.metrics import definitions as of_provider
from potluck.server.metrics import definitions as of_server

OPENING: Final = """\
# Metrics

Made from the tables in `src/potluck/server/metrics/` and `src/potluck/provider/metrics/`;
`make docs` writes this page. [Operations](operations.md#metrics) shows how to scrape them, and
[alerts.md](alerts.md) what to do when a rule fires.

Names and units are those of OpenMetrics: seconds, bytes, credits, ratios from 0 to 1. No label has
the id of a task, an attempt, an account or a node. Every process also exports its CPU time, memory
and open files as `process_…`.

## Server

Every instance has its own `/metrics`. Counters, histograms and summaries are of the instance: sum
them over instances, `sum by (route) (rate(potluck_http_requests_total[5m]))`. What happened to
tasks, attempts, nodes and the ledger is counted by the instance that leads, once, from committed
facts, so the sum over instances is right there too.

A gauge that is *pool-wide* is exported only by the instance that leads, which collects it every
`POTLUCK_METRICS_SECONDS`. While no instance leads, it is absent: `max(potluck_nodes)`, not `sum`.

"""
PROVIDER: Final = """
## Provider

`potluck provide --metrics-port 9471` serves these on 127.0.0.1. They vanish with the machine, so
everything that is counted for good is the server's. The series of devices have the labels `UUID`,
`modelName` and `gpu` of NVIDIA's dcgm-exporter, so that the two can be joined:

```
potluck_gpu_in_use * on (UUID) group_left DCGM_FI_DEV_GPU_UTIL
```

"""


def metrics_page() -> str:
    return OPENING + _table(of_server.TABLE) + PROVIDER + _table(of_provider.TABLE)


def _table(metrics: Sequence[MetricDefinition]) -> str:
    head = "| metric | kind | labels | meaning |\n|---|---|---|---|\n"
    return head + "".join(map(_row, metrics))


def _row(metric: MetricDefinition) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
    meaning = metric.help + (" Pool-wide." if metric.is_pool_wide else "")
    return f"| `{metric.name}` | {metric.kind} | {labels} | {meaning} |\n"
