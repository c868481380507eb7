"""Every metric of the server. `make docs` writes [metrics.md](docs/metrics.md) from this table.

Counters and histograms are of the instance that exports them: sum them over instances. A gauge that
is pool-wide comes from the instance that leads, and from no other.
"""

from typing import Final

from potluck.local.metrics.definition import (
    MetricDefinition,
    counter,
    gauge,
    histogram,
    pool_gauge,
    summary,
)

# An acknowledgement within 1 s and a start within 10 s are objectives: both bounds must be there.
_REQUEST_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_START_SECONDS: Final = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_ROUND_SECONDS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
_LAG_SECONDS: Final = (0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 2.0)
_CELSIUS: Final = (40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0)

REQUESTS = counter(
    "potluck_http_requests_total",
    "Requests by operation (`route`, or `other` for unknown paths) and response status.",
    *("route", "status"),
)
REQUEST_DURATION = histogram(
    "potluck_http_request_duration_seconds",
    "Time until the response began. Operations that wait or transfer bytes are not included.",
    _REQUEST_SECONDS,
    "route",
)
REQUESTS_OPEN = gauge("potluck_http_requests_open", "Requests in progress, streams included.")
ACKNOWLEDGEMENT = histogram(
    "potluck_task_acknowledgement_seconds",
    "Time until a submission was answered: `accepted`, `refused` (4xx) or `failed` (5xx).",
    _REQUEST_SECONDS,
    "outcome",
)

TASKS_QUEUED = counter(
    "potluck_tasks_queued_total",
    "Tasks that entered the queue: `submitted`, or again after an attempt (`retried`).",
    "cause",
)
TASKS_FINISHED = counter(
    "potluck_tasks_finished_total", "Tasks that reached a final state.", "state"
)
ATTEMPTS_STARTED = counter(
    "potluck_attempts_started_total", "Attempts whose code has started on a node."
)
ATTEMPTS_ENDED = counter(
    "potluck_attempts_ended_total",
    "Attempts by end reason; `lease_expired` is a lost lease.",
    "reason",
)
TASK_START = histogram(
    "potluck_task_start_seconds",
    "Time from submission to the first start of the code, of tasks without dependencies that"
    " never had to wait for capacity, credit or a quota.",
    _START_SECONDS,
)
NODES_LOST = counter("potluck_nodes_silenced_total", "How often a node stopped sending heartbeats.")
DEVICE_TEMPERATURE = histogram(
    "potluck_device_temperature_celsius",
    "Temperatures of devices, one observation for each device and heartbeat.",
    _CELSIUS,
)
DELIVERIES = counter(
    "potluck_webhook_deliveries_total",
    "Tries to deliver an event to a webhook: `delivered`, `retried`, `given_up`, or `paused`.",
    "outcome",
)
RECEIPTS = counter(
    "potluck_receipts_total",
    "Receipts of nodes: `taken`, or refused as a `fork` of their chain, for a `gap` in it, or as"
    " `foreign`, `repeated` or without the `signature` of the node's key.",
    "outcome",
)

ROUNDS = histogram(
    "potluck_scheduler_round_seconds",
    "Rounds of the scheduler, from reading changes to applying the plan.",
    _ROUND_SECONDS,
)
PLANNING = histogram(
    "potluck_scheduler_plan_seconds", "The part of a round that decides.", _ROUND_SECONDS
)
DECISIONS = counter(
    "potluck_scheduler_decisions_total",
    "Assignments that were planned: `applied`, or `refused` because they no longer held.",
    "outcome",
)
DIFFERENCES = counter(
    "potluck_memory_differences_total",
    "Entries of the leader's memory that differed from the database: each is a bug.",
)
VIOLATIONS = counter(
    "potluck_invariant_violations_total",
    "Violated invariants, counted again by every check that finds them: each is a bug.",
)

LEADING = gauge("potluck_leading", "1 on the instance that leads, else 0.")
LEADER_TERM = gauge("potluck_leader_term", "The latest term of this instance; 0: none yet.")
SCHEDULER_FAILING = gauge(
    "potluck_scheduler_failing", "1 while the scheduler of the leading instance fails."
)
PART_WORKING = gauge(
    "potluck_part_working", "1 if this part was ok at the last check for `/readyz`.", "part"
)

STATEMENTS = summary(
    "potluck_database_statement_seconds",
    "Statements by name, such as `tasks.insert`. `transaction` is begin, commit and rollback.",
    "query",
)
CONNECTIONS = gauge("potluck_database_connections", "The size of the connection pool.")
CONNECTIONS_USED = gauge("potluck_database_connections_used", "Connections in use.")
CONNECTION_WAITS = counter(
    "potluck_database_connection_waits_total", "Requests that had to wait for a connection."
)
CONNECTION_WAIT_SECONDS = counter(
    "potluck_database_connection_wait_seconds_total", "The time that they waited, in total."
)

LOOP_LAG = histogram(
    "potluck_event_loop_lag_seconds", "How late the event loop runs a timer.", _LAG_SECONDS
)
DISK_FREE = gauge("potluck_disk_free_bytes", "Free space in the data directory.")
CLOCK_SKEW = gauge(
    "potluck_clock_skew_seconds", "How far this machine's clock is ahead of the database's."
)
CERTIFICATE_EXPIRY = gauge(
    "potluck_certificate_expiry_timestamp_seconds",
    "When the certificate that this server presents expires. Absent without TLS.",
)
BUILD = gauge("potluck_build_info", "Always 1; the label has the version.", "version")

QUEUE = pool_gauge(
    "potluck_queue_tasks",
    "Tasks that are ready for an attempt, by priority (`low` is negative, `normal` 0, `high`"
    " positive) and by the code of their waiting reason.",
    *("priority", "reason"),
)
QUEUE_AGE = pool_gauge(
    "potluck_queue_oldest_seconds",
    "The time since the submission of the first of these tasks.",
    *("priority", "reason"),
)
NODES = pool_gauge("potluck_nodes", "Nodes by state; those that left are not counted.", "state")
NODES_MISSING = pool_gauge(
    "potluck_nodes_missing", "Nodes that fell silent within the last hour and are still silent."
)
DEVICES = pool_gauge(
    "potluck_devices",
    "Devices by kind and state: `free`, `busy`, why they take no new work, `silent` with their"
    " node, `unbound`, or `cordoned`.",
    *("kind", "state"),
)
DEVICES_OFFERED = pool_gauge(
    "potluck_devices_offered", "Devices that take work, or have some.", "kind"
)
DEVICES_USED = pool_gauge(
    "potluck_devices_used", "How much of them is in use; half a device counts as 0.5.", "kind"
)
ATTEMPTS = pool_gauge("potluck_attempts", "Live attempts by state.", "state")
LEDGER = pool_gauge(
    "potluck_ledger_credits", "The sum of all balances, by purse; `issued` is negative.", "purse"
)
LEDGER_IMBALANCE = pool_gauge(
    "potluck_ledger_imbalance_credits", "The sum of all purses, which must be zero."
)
LEDGER_MOVED = counter(
    "potluck_ledger_moved_credits_total",
    "Credit moved, by kind of entry. Counted by the leading instance, two minutes late.",
    "kind",
)
BACKUP = pool_gauge(
    "potluck_backup_timestamp_seconds", "When the latest complete backup ended; 0: there is none."
)
EPOCH_OVERDUE = pool_gauge(
    "potluck_epoch_overdue_seconds", "How long the open epoch has been over; 0 while it is not."
)
PAYOUT_AGE = pool_gauge(
    "potluck_payout_age_seconds",
    "How long ago the first epoch was closed whose rewards are not all paid; 0: all are.",
)
PAYOUT_TRANSACTIONS = pool_gauge(
    "potluck_payout_transactions",
    "Transactions of the treasury by state; all but `confirmed`, `failed` and `superseded` are"
    " pending. Absent without a rewards contract.",
    "state",
)
CHAIN_LAG = pool_gauge(
    "potluck_chain_lag_blocks",
    "Blocks of the chain whose deposits and claims were not read, with those that lack"
    " confirmations.",
    "contract",
)
PAYOUTS_STOPPED = pool_gauge(
    "potluck_payouts_stopped",
    "1 if the chain or the contract is not as the ledger knows it: nothing is credited or paid.",
    "contract",
)
PAYOUT_WAIT = pool_gauge(
    "potluck_payout_wait_seconds", "How long a payout has not proceeded.", "contract"
)
OUTBOX = pool_gauge("potluck_outbox_events", "Events that are not announced yet, up to 10,000.")
OUTBOX_LAG = pool_gauge("potluck_outbox_lag_seconds", "The age of the oldest of them.")

TABLE: Final[tuple[MetricDefinition, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, MetricDefinition)
)
