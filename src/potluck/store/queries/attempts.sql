-- Rows are locked in one order everywhere, so that nobody waits in a circle:
-- leader, account, task, attempt, node key, binding, node, device, dependency, ended task, balance,
-- audit; several of one kind in the order of their ids.

-- name: fetch
-- What this node was granted and does not list as held. Given again, with the same token, until it
-- is: a poll that hung up has swallowed it. The lease runs from the first time on: a node that
-- ignores a grant loses it. A poll may have waited for long: whether its caller may have anything is
-- asked once more. Nothing new for a device whose owner has closed it meanwhile. An answer has its
-- measure: sources may be large, and the next has the rest.
WITH granted AS (
    SELECT id, task_id FROM attempts
    WHERE node_id = $1 AND finished_at IS NULL AND id <> ALL($3::text[])
        AND (fetched_at IS NOT NULL OR NOT EXISTS (
            SELECT FROM attempt_devices JOIN devices ON devices.id = device_id
            WHERE attempt_id = attempts.id AND availability <> 'available'))
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
), measured AS (
    SELECT granted.id, sum(size) OVER (ORDER BY granted.id) - size AS bytes_before
    FROM granted JOIN tasks ON tasks.id = task_id, LATERAL (
        SELECT octet_length(sealed_spec) + coalesce(octet_length(sealed_secrets), 0)) AS made (size)
), fetched AS (
    SELECT attempts.id FROM attempts JOIN measured USING (id)
    WHERE finished_at IS NULL AND bytes_before < $7::bigint
    ORDER BY attempts.id
    FOR UPDATE OF attempts
)
UPDATE attempts SET
    fetched_at = coalesce(fetched_at, now()),
    lease_expires_at = CASE WHEN fetched_at IS NULL THEN now() + $4::interval
        ELSE lease_expires_at END
FROM fetched, tasks, accounts
WHERE attempts.id = fetched.id AND tasks.id = attempts.task_id AND accounts.id = consumer_id
RETURNING attempts.id, attempts.task_id, attempts.consumer_id, accounts.address AS wallet,
    tasks.sealed_spec, tasks.sealed_secrets, tasks.requirements, tasks.limits, attempts.remaining,
    tasks.items AS items_total, attempts.is_reclaimable,
    (SELECT jsonb_build_object('sha256', encode(sha256, 'hex'), 'size_bytes', size_bytes)
        FROM task_blobs WHERE task_id = tasks.id AND role = 'checkpoint') AS checkpoint

-- name: shares
SELECT attempt_id, device_id, devices.uuid, milli, attempt_devices.memory_bytes
FROM attempt_devices JOIN devices ON devices.id = device_id
WHERE attempt_id = ANY($1)
ORDER BY attempt_id, devices.position

-- name: live_of_node
SELECT attempts.id FROM attempts
WHERE node_id = $1 AND finished_at IS NULL
    AND EXISTS (SELECT FROM nodes WHERE nodes.id = $1 AND account_id = $2)

-- name: unfetched
-- What it can not have any more, since a device takes nothing new.
SELECT id FROM attempts
WHERE node_id = $1 AND finished_at IS NULL AND fetched_at IS NULL AND EXISTS (
    SELECT FROM attempt_devices JOIN devices ON devices.id = device_id
    WHERE attempt_id = attempts.id AND availability <> 'available')
ORDER BY id

-- name: lock_task_of
SELECT id FROM tasks WHERE id = (SELECT task_id FROM attempts WHERE id = $1) FOR UPDATE

-- name: lock_tasks_of
SELECT id FROM tasks WHERE id IN (SELECT task_id FROM attempts WHERE id = ANY($1::text[]))
ORDER BY id FOR UPDATE

-- name: prepare
WITH before AS (
    SELECT id, state FROM attempts
    WHERE id = $1 AND node_id = $2 AND state IN ('granted', 'preparing')
    FOR UPDATE
)
UPDATE attempts SET state = 'preparing'
FROM before WHERE attempts.id = before.id
RETURNING attempts.id, task_id, consumer_id, before.state <> 'preparing' AS is_news

-- name: start
WITH before AS (
    SELECT id, state FROM attempts
    WHERE id = $1 AND node_id = $2 AND finished_at IS NULL
    FOR UPDATE
)
UPDATE attempts SET state = 'running', started_at = coalesce(started_at, now())
FROM before WHERE attempts.id = before.id
RETURNING attempts.id, task_id, consumer_id, before.state <> 'running' AS is_news

-- name: live_of_task
SELECT id FROM attempts WHERE task_id = $1 AND finished_at IS NULL

-- name: lock_for_end
-- The caller has locked the task, in a statement before this one: what other attempts of it have
-- come to is seen here. Of an array the losses are those of the item that was running.
SELECT attempts.id, attempts.task_id, attempts.node_id, attempts.state, attempts.reason,
    attempts.consumer_id, attempts.provider_id, attempts.price_micro_per_hour, attempts.hold_micro,
    attempts.charge_micro, attempts.adoptions, attempts.run_seconds_limit, attempts.started_at,
    attempts.report_hash, attempts.items IS NOT NULL AS is_range, attempts.remaining,
    attempts.items_seconds, attempts.is_reclaimable,
    tasks.state AS task_state, tasks.kind, tasks.failures, tasks.losses, tasks.max_attempts,
    tasks.items, NOT isempty(tasks.pending) AS has_pending, tasks.items_succeeded, tasks.items_failed,
    tasks.allow_failures,
    EXISTS (SELECT FROM attempts AS other
        WHERE other.task_id = attempts.task_id AND other.finished_at IS NULL
            AND other.id <> attempts.id) AS has_others,
    (SELECT count(DISTINCT other.node_id) FROM attempts AS other
        WHERE other.task_id = attempts.task_id AND other.state = 'lost'
            AND other.reason NOT IN (
                'withdrawn', 'node_left', 'reclaimed', 'declined', 'silence')
            AND other.node_id <> attempts.node_id
            AND lower(other.remaining) IS NOT DISTINCT FROM lower(attempts.remaining)
    ) AS other_nodes_lost,
    (SELECT count(*) FROM attempts AS other
        WHERE other.task_id = attempts.task_id AND other.state = 'lost'
            AND other.reason NOT IN (
                'withdrawn', 'node_left', 'reclaimed', 'declined', 'silence')
            AND attempts.items IS NOT NULL
            AND lower(other.remaining) = lower(attempts.remaining)) AS item_losses,
    (SELECT count(*) FROM attempts AS other
        WHERE other.task_id = attempts.task_id AND other.state = 'lost'
            AND other.reason = 'declined') AS declines,
    clock_timestamp() AS now,
    lease_expires_at <= clock_timestamp() AS is_expired,
    fetched_at IS NOT NULL AS was_fetched,
    NOT EXISTS (SELECT FROM attempt_devices JOIN devices ON devices.id = device_id
        WHERE attempt_id = attempts.id AND availability <> 'available') AS is_available
FROM attempts JOIN tasks ON tasks.id = attempts.task_id
WHERE attempts.id = ANY($1::text[])
ORDER BY attempts.id
FOR UPDATE OF attempts

-- name: finish
-- Ends them and gives back what they had reserved, once: only a live one ends. Nodes before devices,
-- and nodes in id order.
WITH ended AS (
    UPDATE attempts SET
        state = how.state, reason = how.reason, detail = how.detail, exit_code = how.exit_code,
        usage = how.usage, charge_micro = attempts.charge_micro + how.charge_micro,
        report_hash = how.report_hash, finished_at = now()
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::jsonb[],
            $7::bigint[], $8::bytea[], $9::integer[], $10::integer[])
        AS how (id, state, reason, detail, exit_code, usage, charge_micro, report_hash, finished,
            lost)
    WHERE attempts.id = how.id AND finished_at IS NULL
    RETURNING attempts.id, node_id, cores, memory_bytes, disk_bytes, how.finished, how.lost,
        how.reason = 'withdrawn' AND how.lost > 0 AS was_ignored
), given_back AS (
    SELECT node_id, sum(cores) AS cores, sum(memory_bytes) AS memory_bytes,
        sum(disk_bytes) AS disk_bytes, sum(finished) AS finished, sum(lost) AS lost,
        bool_or(was_ignored) AS was_ignored
    FROM ended GROUP BY node_id
), node AS (
    SELECT nodes.id FROM nodes WHERE id IN (SELECT node_id FROM given_back)
    ORDER BY id FOR UPDATE
), freed_node AS (
    UPDATE nodes SET
        used_cores = used_cores - given_back.cores,
        used_memory_bytes = used_memory_bytes - given_back.memory_bytes,
        used_disk_bytes = used_disk_bytes - given_back.disk_bytes,
        finished_attempts = finished_attempts + given_back.finished,
        lost_attempts = lost_attempts + given_back.lost,
        -- However lively, it gets no more until it asks.
        is_polling = is_polling AND NOT given_back.was_ignored
    FROM given_back JOIN node ON node.id = given_back.node_id
    WHERE nodes.id = node.id
    RETURNING nodes.id
), share AS (
    SELECT device_id, sum(milli) AS milli, sum(attempt_devices.memory_bytes) AS memory_bytes
    FROM attempt_devices JOIN ended ON ended.id = attempt_id
    GROUP BY device_id
)
-- Whoever holds the nodes' rows holds their devices.
UPDATE devices SET
    free_milli = free_milli + share.milli,
    used_memory_bytes = used_memory_bytes - share.memory_bytes
FROM share WHERE devices.id = share.device_id AND (SELECT count(*) FROM freed_node) > 0

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
