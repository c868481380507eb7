-- Rows are locked in one order everywhere, so that nobody waits in a circle:
-- leader, task, attempt, node key, binding, node, device, balance, audit; several of one kind in the
-- order of their ids.

-- name: assign
-- The guarded assign, in one statement: either all of it still holds, or nothing changes.
WITH term AS (
    -- An old leader's plan changes nothing.
    SELECT FROM leader
    WHERE leader.term = $2 AND holder = $3 AND expires_at > now()
    FOR SHARE
), task AS (
    -- Written so that the planner can not take the partial index of the queue for it: on a table
    -- without statistics it would walk all that waits.
    SELECT id, account_id FROM tasks
    WHERE id = $4 AND state IN ('queued', '') AND EXISTS (SELECT FROM term)
    FOR UPDATE
), node AS (
    SELECT id, account_id FROM nodes
    WHERE id = $5 AND state = 'online'
        AND cores - used_cores >= $8
        AND memory_bytes - used_memory_bytes >= $9
        AND disk_bytes - used_disk_bytes >= $10
        AND EXISTS (SELECT FROM task)
    FOR UPDATE
), device AS (
    -- The price must be the one that was planned with.
    SELECT devices.id, wanted.milli, devices.price_micro_per_hour
    FROM devices JOIN unnest($6::text[], $7::integer[]) AS wanted (id, milli) USING (id)
    WHERE devices.node_id = $5 AND is_present AND standing = 'bound'
        AND free_milli >= wanted.milli
        AND EXISTS (SELECT FROM node)
    ORDER BY devices.id
    FOR UPDATE OF devices
), guard AS (
    SELECT task.id AS task_id, task.account_id AS consumer_id, node.account_id AS provider_id
    FROM task, node
    WHERE (SELECT count(*) FROM device) = cardinality($6::text[])
        AND (SELECT sum(price_micro_per_hour * milli) FROM device)::bigint / 1000 = $11
        -- Held by the ledger entry that follows in this transaction.
        AND ($12 = 0 OR EXISTS (SELECT FROM balances
            WHERE account_id = task.account_id AND available_micro >= $12))
), taken_devices AS (
    UPDATE devices SET free_milli = free_milli - device.milli
    FROM device WHERE devices.id = device.id AND EXISTS (SELECT FROM guard)
), taken_node AS (
    UPDATE nodes SET
        used_cores = used_cores + $8,
        used_memory_bytes = used_memory_bytes + $9,
        used_disk_bytes = used_disk_bytes + $10
    WHERE id = $5 AND EXISTS (SELECT FROM guard)
), taken_task AS (
    UPDATE tasks SET state = 'assigned', not_before = NULL, reason = NULL, detail = '',
        updated_at = now(), version = version + 1
    WHERE id = $4 AND EXISTS (SELECT FROM guard)
), attempt AS (
    INSERT INTO attempts (
        id, task_id, node_id, consumer_id, provider_id, number, cores, memory_bytes, disk_bytes,
        price_micro_per_hour, hold_micro, run_seconds_limit, prepare_seconds_limit,
        log_bytes_limit, lease_expires_at)
    SELECT $1, task_id, $5, consumer_id, provider_id,
        (SELECT count(*) + 1 FROM attempts WHERE task_id = $4), $8, $9, $10, $11, $12,
        $13, $14, $15, now() + $16::interval
    FROM guard
    RETURNING id, task_id, consumer_id
), shares AS (
    INSERT INTO attempt_devices (attempt_id, device_id, milli)
    SELECT attempt.id, device.id, device.milli FROM attempt, device
)
SELECT id, task_id, consumer_id FROM attempt

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
    FOR UPDATE
)
UPDATE attempts SET
    fetched_at = coalesce(fetched_at, now()),
    lease_expires_at = CASE WHEN fetched_at IS NULL THEN now() + $4::interval
        ELSE lease_expires_at END
FROM fetched, tasks
WHERE attempts.id = fetched.id AND tasks.id = attempts.task_id
RETURNING attempts.id, attempts.task_id, attempts.consumer_id,
    tasks.sealed_spec, tasks.requirements, tasks.limits

-- name: shares
SELECT attempt_id, device_id, devices.uuid, milli
FROM attempt_devices JOIN devices ON devices.id = device_id
WHERE attempt_id = ANY($1)
ORDER BY attempt_id, devices.position

-- name: live_of_node
SELECT attempts.id FROM attempts
WHERE node_id = $1 AND finished_at IS NULL
    AND EXISTS (SELECT FROM nodes WHERE nodes.id = $1 AND account_id = $2)

-- name: renew
-- Not beyond the time at which the attempt must be over, however lively the node: one that hangs,
-- or lies, keeps nothing for ever.
WITH held AS (
    SELECT id FROM attempts
    WHERE node_id = $1 AND id = ANY($2) AND finished_at IS NULL
    ORDER BY id
    FOR UPDATE
)
UPDATE attempts SET lease_expires_at = greatest(lease_expires_at, least(
    now() + $3::interval,
    $4::interval + coalesce(
        started_at + make_interval(secs => run_seconds_limit),
        fetched_at + make_interval(secs => prepare_seconds_limit))))
FROM held WHERE attempts.id = held.id

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

-- name: expired
SELECT id FROM attempts
WHERE finished_at IS NULL AND lease_expires_at <= now()
ORDER BY lease_expires_at LIMIT 1000

-- name: extend_all
-- After a gap in which nobody could beat: nobody is expired for the server's own silence.
WITH live AS (
    SELECT id FROM attempts WHERE finished_at IS NULL AND fetched_at IS NOT NULL
    ORDER BY id FOR UPDATE
)
UPDATE attempts SET lease_expires_at = greatest(lease_expires_at, now() + $1::interval)
FROM live WHERE attempts.id = live.id

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
