-- What the leader keeps in memory: read completely in slices, and afterwards only changes.

-- name: position
-- A snapshot. Taken before the rows: a concurrent change is read twice, but never missed.
SELECT pg_current_snapshot()::text AS position,
    extract(epoch FROM clock_timestamp())::double precision AS now

-- name: news
-- Changes after the position, and the next position: the snapshot of this very statement, so
-- nothing is missed or repeated. The first page of tasks as in changed_tasks, one per row, each
-- with the rest; one row if there are none.
SELECT news.*, task.*
FROM (SELECT
    pg_current_snapshot()::text AS position,
    extract(epoch FROM clock_timestamp())::double precision AS now,
    ARRAY(
        SELECT id FROM nodes WHERE is_news(changed, :snapshot::text::pg_snapshot)
        UNION
        SELECT node_id FROM devices WHERE is_news(changed, :snapshot::text::pg_snapshot)
    ) AS node_ids,
    ARRAY(
        SELECT account_id FROM balances WHERE is_news(changed, :snapshot::text::pg_snapshot)
        UNION
        SELECT id FROM accounts WHERE is_news(changed, :snapshot::text::pg_snapshot)
    ) AS account_ids,
    -- Whether a task waits for one that has ended, at any time. From the few ended ones, by the
    -- index: a million may wait.
    EXISTS (
        SELECT FROM ended_tasks CROSS JOIN LATERAL (
            SELECT FROM dependencies WHERE dependencies.after_id = ended_tasks.after_id LIMIT 1
        ) AS waiting
    ) AS has_decided
) AS news
LEFT JOIN LATERAL (
    SELECT *, changed::text AS changed_by FROM scheduled_tasks
    WHERE is_news(changed, :snapshot::text::pg_snapshot)
    ORDER BY changed, id
    LIMIT :limit
) AS task ON true
ORDER BY changed, id

-- name: changed_tasks
-- A further page of changes after the position. The index is entered after the last page.
SELECT *, changed::text AS changed_by FROM scheduled_tasks
WHERE (changed, id) > (:last_task.changed_by::text::xid8, :last_task.id)
    AND NOT pg_visible_in_snapshot(changed, :snapshot::text::pg_snapshot)
ORDER BY changed, id
LIMIT :limit

-- name: tasks
SELECT * FROM scheduled_tasks WHERE id = ANY(:task_ids)

-- name: waiting_tasks
-- A page of all waiting tasks, after the last page.
SELECT * FROM scheduled_tasks
WHERE is_waiting AND id > :after_id
ORDER BY id
LIMIT :limit

-- name: waiting_accounts
-- Accounts with waiting tasks: skips from one account to the next along the index, for any number
-- of tasks in between.
WITH RECURSIVE step AS (
    (SELECT account_id FROM tasks WHERE is_waiting ORDER BY account_id, priority DESC, id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT account_id FROM tasks
        WHERE is_waiting AND account_id > step.account_id
        ORDER BY account_id, priority DESC, id LIMIT 1
    )
    FROM step WHERE step.account_id IS NOT NULL
)
SELECT account_id FROM step WHERE account_id IS NOT NULL

-- name: queue_heads
-- The first tasks of each account's queue.
SELECT head.*
FROM unnest(:account_ids::text[]) AS account (id), LATERAL (
    SELECT * FROM scheduled_tasks
    WHERE is_waiting AND account_id = account.id
    ORDER BY account_id, priority DESC, id
    LIMIT :limit
) AS head

-- name: waiting_ids
-- As waiting_tasks, but only the data for the memory audit, and only rows that the position has
-- seen: the rest is on its way.
SELECT id, NOT has_to_wait AND coalesce(ready_at <= :position.now, true) AS is_ready, pending
FROM scheduled_tasks
WHERE is_waiting AND id > :after_id AND NOT is_overdue
    AND pg_visible_in_snapshot(changed, :position.snapshot::text::pg_snapshot)
ORDER BY id
LIMIT :limit

-- name: not_waiting
-- Those that cannot be in the queue, seen by the position.
SELECT id FROM scheduled_tasks
WHERE id = ANY(:task_ids) AND (NOT is_waiting OR has_to_wait)
    AND pg_visible_in_snapshot(changed, :snapshot::text::pg_snapshot)

-- name: changed_nodes
SELECT id FROM nodes WHERE is_news(changed, :snapshot::text::pg_snapshot)
UNION
SELECT node_id FROM devices WHERE is_news(changed, :snapshot::text::pg_snapshot)

-- name: online_nodes
SELECT id FROM nodes WHERE state = 'online' AND id > :after_id ORDER BY id LIMIT :limit

-- name: nodes
-- Each node's offer (none if it gets no work), devices and running attempts, also on devices that
-- are no longer offered; from one snapshot. The node and its devices are looked up by the node's id
-- alone: with their conditions the planner may read the whole index of all nodes or devices that fulfil these.
SELECT wanted.id, offered.*, device.devices, attempt.attempts
-- In brackets: the planner would see the list's length, and plan again each time, which is slower.
FROM unnest((SELECT :node_ids::text[])) WITH ORDINALITY AS wanted (id, place)
LEFT JOIN LATERAL (
    SELECT account_id, own_tasks_only, cores, memory_bytes, disk_bytes,
        -- The owner may offer less than is in use.
        greatest(cores - used_cores, 0) AS free_cores,
        greatest(memory_bytes - used_memory_bytes, 0) AS free_memory_bytes,
        greatest(disk_bytes - used_disk_bytes, 0) AS free_disk_bytes,
        finished_attempts, lost_attempts, outlier_attempts, cordoned_at IS NOT NULL AS is_cordoned,
        coalesce(description -> 'labels', '[]') AS labels,
        description -> 'sandbox' AS sandbox,
        nullif(description -> 'containers', 'null') AS containers,
        -- Nodes registered with an older server did not report it.
        coalesce(description ->> 'python_version', '') AS python_version, address AS wallet,
        coalesce((description ->> 'volumes_bytes')::bigint, 0) AS volumes_bytes, held_volumes,
        coalesce((description ->> 'others_disk_in_memory')::boolean, false)
            AS others_disk_in_memory,
        coalesce((description ->> 'gpu_share')::float8, 1) AS gpu_share,
        coalesce(description -> 'more_pythons', '[]') AS more_pythons
    FROM (SELECT * FROM nodes WHERE nodes.id = wanted.id OFFSET 0) AS nodes
    JOIN accounts ON accounts.id = account_id
    WHERE state = 'online' AND is_polling
) AS offered ON true
CROSS JOIN LATERAL (
    SELECT coalesce(jsonb_agg(each ORDER BY each.position), '[]') AS devices FROM (
        SELECT id, kind, model, memory_bytes, price_micro_per_hour, free_milli,
            greatest(memory_bytes - used_memory_bytes, 0) AS free_memory_bytes, availability,
            coalesce(description ->> 'vendor', '') AS vendor,
            description ->> 'compute_capability' AS compute_capability,
            coalesce((description ->> 'is_partition')::boolean, false) AS is_partition,
            coalesce(description -> 'terms', '{}') AS terms, position
        FROM (SELECT * FROM devices WHERE devices.node_id = wanted.id OFFSET 0) AS devices
        WHERE is_present AND standing = 'bound'
    ) AS each
) AS device
CROSS JOIN LATERAL (
    SELECT coalesce(jsonb_agg(each), '[]') AS attempts FROM (
        SELECT attempts.id, task_id, consumer_id, cores, memory_bytes, disk_bytes,
            run_seconds_limit, tasks.name, tasks.requirements, tasks.expected_seconds,
            items_done, attempts.items_seconds,
            coalesce(upper(attempts.items) - lower(attempts.items), 1) AS items,
            attempts.items IS NOT NULL AS is_array, tasks.kind, attempts.price_micro_per_hour,
            attempts.line, attempts.has_share,
            extract(epoch FROM coalesce(attempts.started_at, assigned_at))::double precision AS since,
            (
                SELECT jsonb_agg(jsonb_build_array(device_id, milli, attempt_devices.memory_bytes)
                    ORDER BY device_id)
                FROM attempt_devices WHERE attempt_id = attempts.id
            ) AS shares
        FROM attempts JOIN tasks ON tasks.id = task_id
        WHERE node_id = wanted.id AND attempts.finished_at IS NULL
    ) AS each
) AS attempt
ORDER BY place

-- name: changed_accounts
SELECT account_id FROM balances WHERE is_news(changed, :snapshot::text::pg_snapshot)
UNION
SELECT id FROM accounts WHERE is_news(changed, :snapshot::text::pg_snapshot)

-- name: all_accounts
SELECT id FROM accounts WHERE id > :after_id ORDER BY id LIMIT :limit

-- name: accounts
SELECT accounts.id, address, coalesce(available_micro, 0) AS available_micro, weight,
    max_running_devices
FROM accounts LEFT JOIN balances ON account_id = accounts.id
WHERE accounts.id = ANY(:account_ids)

-- name: paces
-- Seconds per item of these arrays on each node, and the failures where none succeeded; from the
-- newest few attempts.
SELECT newest.task_id, newest.node_id,
    (sum(newest.items_seconds) / sum(newest.items_done))::double precision AS item_seconds,
    CASE WHEN sum(newest.items_failed) = sum(newest.items_done)
        THEN sum(newest.items_failed) ELSE 0 END::integer AS in_vain
FROM unnest(:task_ids::text[]) AS task (id), LATERAL (
    SELECT task_id, node_id, items_seconds, items_done, items_failed FROM attempts
    WHERE task_id = task.id
    ORDER BY number DESC LIMIT 64
) AS newest
WHERE newest.items_done > 0
GROUP BY newest.task_id, newest.node_id
