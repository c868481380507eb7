-- Rows are locked in one order everywhere, so that nobody waits in a circle:
-- leader, task, attempt, node key, binding, node, device, balance, audit; several of one kind in the
-- order of their ids.

-- name: fetch
-- What this node was granted and does not list as held. Given again, with the same token, until it
-- is: a poll that hung up has swallowed it. The lease runs from the first time on: a node that
-- ignores a grant loses it. A poll may have waited for long: whether its caller may have anything is
-- asked once more.
WITH fetched AS (
    SELECT id FROM attempts
    WHERE node_id = $1 AND finished_at IS NULL AND id <> ALL($3::text[])
        AND EXISTS (
            SELECT FROM nodes JOIN accounts ON accounts.id = account_id
            WHERE nodes.id = $1 AND account_id = $2 AND node_key_id IS NOT DISTINCT FROM $5
                AND nodes.state <> 'left' AND suspended_at IS NULL
                AND NOT EXISTS (
                    SELECT FROM node_keys
                    WHERE node_keys.id = node_key_id
                        AND (revoked_at IS NOT NULL OR expires_at <= now())))
    ORDER BY id
    LIMIT $6
    FOR UPDATE
)
UPDATE attempts SET
    fetched_at = coalesce(fetched_at, now()),
    lease_expires_at = CASE WHEN fetched_at IS NULL THEN now() + $4::interval
        ELSE lease_expires_at END
FROM fetched, tasks
WHERE attempts.id = fetched.id AND tasks.id = attempts.task_id
RETURNING attempts.id, attempts.task_id, attempts.consumer_id,
    tasks.sealed_spec, tasks.requirements, tasks.limits, attempts.remaining,
    tasks.items AS items_total

-- name: shares
SELECT attempt_id, device_id, devices.uuid, milli
FROM attempt_devices JOIN devices ON devices.id = device_id
WHERE attempt_id = ANY($1)
ORDER BY attempt_id, devices.position

-- name: live_of_node
SELECT attempts.id FROM attempts
WHERE node_id = $1 AND finished_at IS NULL
    AND EXISTS (SELECT FROM nodes WHERE nodes.id = $1 AND account_id = $2)

-- name: lock_task_of
SELECT id FROM tasks WHERE id = (SELECT task_id FROM attempts WHERE id = $1) FOR UPDATE

-- name: prepare
UPDATE attempts SET state = 'preparing'
WHERE id = $1 AND node_id = $2 AND state IN ('granted', 'preparing')
RETURNING task_id

-- name: start
UPDATE attempts SET state = 'running', started_at = coalesce(started_at, now())
WHERE id = $1 AND node_id = $2 AND finished_at IS NULL
RETURNING task_id

-- name: lock_for_end
WITH task AS (
    SELECT id, state, failures, losses, max_attempts
    FROM tasks WHERE id = (SELECT task_id FROM attempts WHERE id = $1)
    FOR UPDATE
)
SELECT attempts.id, attempts.task_id, attempts.node_id, attempts.state, attempts.consumer_id,
    attempts.provider_id, attempts.price_micro_per_hour, attempts.hold_micro,
    attempts.run_seconds_limit, attempts.started_at, attempts.report_hash,
    task.state AS task_state, task.failures, task.losses, task.max_attempts,
    (SELECT count(DISTINCT other.node_id) FROM attempts AS other
        WHERE other.task_id = attempts.task_id AND other.state = 'lost'
            AND other.reason NOT IN ('withdrawn', 'node_left', 'silence')
            AND other.node_id <> attempts.node_id) AS other_nodes_lost,
    clock_timestamp() AS now,
    lease_expires_at <= clock_timestamp() AS is_expired,
    fetched_at IS NOT NULL AS was_fetched
FROM attempts JOIN task ON task.id = attempts.task_id
WHERE attempts.id = $1
FOR UPDATE OF attempts

-- name: finish
-- Ends it and gives back what it had reserved, once: only a live one ends.
WITH ended AS (
    UPDATE attempts SET
        state = $2, reason = $3, detail = $4, exit_code = $5, usage = $6, charge_micro = $7,
        report_hash = $8, finished_at = now()
    WHERE id = $1 AND finished_at IS NULL
    RETURNING id, node_id, cores, memory_bytes, disk_bytes
), freed_node AS (
    UPDATE nodes SET
        used_cores = used_cores - ended.cores,
        used_memory_bytes = used_memory_bytes - ended.memory_bytes,
        used_disk_bytes = used_disk_bytes - ended.disk_bytes
    FROM ended WHERE nodes.id = ended.node_id
    RETURNING nodes.id
)
-- After the node: whoever holds the node's row holds its devices.
UPDATE devices SET free_milli = free_milli + share.milli
FROM attempt_devices AS share JOIN ended ON ended.id = share.attempt_id
WHERE devices.id = share.device_id AND EXISTS (SELECT FROM freed_node)

-- name: log_state
SELECT log_pieces, log_bytes, log_bytes_limit, task_id FROM attempts
WHERE id = $1 AND node_id = $2 AND finished_at IS NULL

-- name: append_log
UPDATE attempts SET log_pieces = log_pieces + $3, log_bytes = log_bytes + $4
WHERE id = $1 AND log_pieces = $2 AND finished_at IS NULL
RETURNING log_pieces

-- name: log_of_task
-- The log of one attempt, the newest unless a number is given.
SELECT attempts.id, attempts.log_pieces, attempts.finished_at IS NULL AS is_live FROM attempts
JOIN tasks ON tasks.id = attempts.task_id
WHERE tasks.id = $1 AND tasks.account_id = $2 AND ($3::integer IS NULL OR number = $3)
ORDER BY number DESC LIMIT 1
