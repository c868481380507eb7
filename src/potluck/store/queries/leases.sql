-- Leases: renewed, given up, re-adopted, extended by grace. For the lock order see attempts.sql.

-- `|| ''` keeps a condition from being looked up in an index that has every node of an account, or every
-- device that is offered: the planner would read all of it where it knows of few.

-- name: beat
-- A heartbeat in one statement: renews the node's leases, marks it as seen, and reads what it must
-- be told. No lease extends beyond the time at which its attempt must be over: a node that hangs or
-- lies keeps nothing for ever. Of a range, the next outcome must come within the time of two items:
-- a long range gets no long lease.
WITH held AS (
    SELECT id FROM attempts
    WHERE node_id = :node_id AND id = ANY(:held_ids) AND finished_at IS NULL
    ORDER BY id
    FOR UPDATE
), before AS (
    SELECT id, state, last_wish, held_volumes FROM nodes
    WHERE id = :node_id AND account_id || '' = :owner.account_id
        AND node_key_id IS NOT DISTINCT FROM :owner.node_key_id AND state <> 'left'
        -- Attempts are locked before nodes.
        AND (SELECT count(*) FROM held) >= 0
    FOR UPDATE
), renewed AS (
    UPDATE attempts SET heard_at = now(),
        heard_since = CASE WHEN heard_at > now() - :contact_duration::interval THEN heard_since
            ELSE now() END,
        lease_expires_at = greatest(lease_expires_at, least(
        now() + :lease_duration::interval,
        :overrun_duration::interval + coalesce(
            started_at + make_interval(secs => run_seconds_limit),
            fetched_at + make_interval(secs => prepare_seconds_limit)),
        -- One that waits for the share of another does not keep its task for long.
        CASE WHEN NOT has_share AND started_at IS NULL
            THEN fetched_at + :lease_duration::interval END,
        -- NULL, and without effect, unless it is a range.
        :overrun_duration::interval + coalesce(progressed_at, started_at) + make_interval(
            secs => 2 * run_seconds_limit / (upper(items) - lower(items)))))
    FROM held, before WHERE attempts.id = held.id
), heard AS (
    UPDATE nodes SET heartbeat_at = now(), held_volumes = :volumes::text[]
    FROM before WHERE nodes.id = before.id
)
SELECT before.state AS node_state, before.last_wish, now() AS now,
    before.held_volumes <> :volumes::text[] AS holds_other_volumes,
    ARRAY(SELECT id FROM attempts WHERE node_id = :node_id AND finished_at IS NULL) AS live,
    ARRAY(SELECT id FROM attempts WHERE id = ANY(:held_ids) AND node_id = :node_id
        AND state = 'lost' AND reason = 'lease_expired' ORDER BY id) AS lost,
    ARRAY(SELECT id FROM attempts WHERE node_id = :node_id AND finished_at IS NULL
        AND unfunded_at IS NOT NULL ORDER BY id) AS unfunded,
    EXISTS (SELECT FROM wishes WHERE node_id = :node_id) AS has_wishes,
    own.*
FROM before, LATERAL (
    SELECT coalesce(array_agg(uuid ORDER BY devices.id), '{}') AS uuids,
        coalesce(array_agg(availability ORDER BY devices.id), '{}') AS availabilities,
        coalesce(array_agg(why ORDER BY devices.id), '{}') AS whys,
        coalesce(array_agg(hot_since IS NOT NULL ORDER BY devices.id), '{}') AS are_hot,
        coalesce(bool_or(standing <> 'bound' OR contests.uuid IS NOT NULL), false) AS has_concerns
    FROM devices LEFT JOIN contests USING (uuid)
    WHERE node_id = :node_id AND is_present
) AS own

-- name: beat_idle
-- Calls of idle nodes, many in one statement. Only plain cases: a node that is silent, has work or
-- has just begun to poll, or holds other volumes, is left out and handled alone. So is a row that another
-- transaction has locked: nothing waits here, and the order of the locks does not matter. A crash may lose the
-- last moments, which the next heartbeat makes up for: the commit does not wait for the disk.
WITH idle AS (
    SELECT nodes.id, last_wish
    FROM unnest(:calls[].node_id::text[], :calls[].owner.account_id::text[],
            :calls[].owner.node_key_id::text[], :calls[].is_poll::boolean[],
            :calls[].volumes_text::text[])
        AS call (node_id, account_id, node_key_id, is_poll, volumes)
    JOIN nodes ON nodes.id = call.node_id
    WHERE nodes.account_id = call.account_id
        AND nodes.node_key_id IS NOT DISTINCT FROM call.node_key_id
        AND state = 'online' AND (is_polling OR NOT is_poll)
        AND (call.volumes IS NULL OR held_volumes = string_to_array(call.volumes, E'\n'))
        AND NOT EXISTS (
            SELECT FROM attempts WHERE attempts.node_id = nodes.id AND finished_at IS NULL)
    FOR NO KEY UPDATE OF nodes SKIP LOCKED
), heard AS (
    UPDATE nodes SET heartbeat_at = now()
    FROM idle WHERE nodes.id = idle.id
)
SELECT idle.id, 'online' AS node_state, idle.last_wish, now() AS now,
    false AS holds_other_volumes,
    '{}'::text[] AS live, '{}'::text[] AS lost, '{}'::text[] AS unfunded,
    EXISTS (SELECT FROM wishes WHERE node_id = idle.id) AS has_wishes,
    own.*
FROM set_config('synchronous_commit', 'off', true), idle, LATERAL (
    SELECT coalesce(array_agg(uuid ORDER BY devices.id), '{}') AS uuids,
        coalesce(array_agg(availability ORDER BY devices.id), '{}') AS availabilities,
        coalesce(array_agg(why ORDER BY devices.id), '{}') AS whys,
        coalesce(array_agg(hot_since IS NOT NULL ORDER BY devices.id), '{}') AS are_hot,
        coalesce(bool_or(standing <> 'bound' OR contests.uuid IS NOT NULL), false) AS has_concerns
    FROM devices LEFT JOIN contests USING (uuid)
    WHERE node_id = idle.id AND is_present
) AS own

-- name: live_of_nodes
-- For all polls that wait on an instance.
SELECT node_id, array_agg(id) AS live FROM attempts
WHERE node_id = ANY(:node_ids) AND finished_at IS NULL
GROUP BY node_id

-- name: ask
-- The node polls, so new grants will be fetched, unless it lists attempts that were given up: those
-- come first. Includes everything the poll needs to decide whether to answer. Only `come_back` ends
-- a node's silence. As with `hear`, written only if it is new.
WITH before AS (
    SELECT id, state, is_polling, heartbeat_at FROM nodes
    WHERE id = :node_id AND account_id || '' = :owner.account_id
        AND node_key_id IS NOT DISTINCT FROM :owner.node_key_id AND state <> 'left'
), lost AS (
    SELECT id FROM attempts
    WHERE id = ANY(:held_ids) AND node_id = :node_id AND state = 'lost' AND reason = 'lease_expired'
), asked AS (
    -- By the current row: of two concurrent polls, one is news.
    UPDATE nodes SET heartbeat_at = now(), is_polling = true FROM before
    WHERE nodes.id = before.id AND NOT EXISTS (SELECT FROM lost)
        AND (NOT nodes.is_polling OR nodes.heartbeat_at <= now() - :min_heartbeat_age::interval)
    RETURNING nodes.id
)
SELECT state, NOT is_polling AND EXISTS (SELECT FROM asked) AS is_news,
    EXISTS (SELECT FROM wishes WHERE node_id = :node_id) AS has_wishes,
    ARRAY(SELECT id FROM attempts WHERE node_id = :node_id AND finished_at IS NULL) AS live,
    ARRAY(SELECT id FROM lost ORDER BY id) AS lost
FROM before

-- name: look
-- The node's leases, after re-adoption.
SELECT EXISTS (SELECT FROM wishes WHERE node_id = :node_id) AS has_wishes,
    ARRAY(SELECT attempts.id FROM attempts JOIN nodes ON nodes.id = node_id
        WHERE node_id = :node_id AND finished_at IS NULL
            AND nodes.account_id || '' = :owner.account_id) AS live,
    ARRAY(SELECT id FROM attempts WHERE id = ANY(:held_ids) AND node_id = :node_id
        AND state = 'lost' AND reason = 'lease_expired' ORDER BY id) AS lost

-- name: lock_for_adoption
-- In a statement before `adopt`, and after the task: `adopt` sees a concurrent grant of these
-- devices only if this one waited for it.
WITH attempt AS (
    SELECT id FROM attempts
    WHERE id = :attempt_id AND node_id = :node_id AND state = 'lost' AND reason = 'lease_expired'
    FOR UPDATE
), node AS (
    SELECT nodes.id FROM nodes
    WHERE nodes.id = :node_id AND EXISTS (SELECT FROM attempt)
    FOR UPDATE
)
SELECT devices.id FROM devices JOIN attempt_devices ON device_id = devices.id
WHERE attempt_id = :attempt_id AND EXISTS (SELECT FROM node)
ORDER BY devices.id FOR UPDATE OF devices

-- name: adopt
-- Revives an attempt whose lease expired, if its work has not been granted since: room, devices and
-- hold are taken again, or nothing changes. It is already running, so later terms of the owner do
-- not matter; but not on a device that is sick. The caller has locked the task, the node and the
-- devices in earlier statements, so that all changes to them are visible here.
WITH attempt AS (
    SELECT attempts.*, tasks.state AS task_state, tasks.requirements,
        -- It had room besides all older ones: if the owner offers less now, that affects later
        -- ones.
        NOT EXISTS (SELECT FROM attempts AS newer
            WHERE newer.node_id = :node_id AND newer.finished_at IS NULL
                AND newer.assigned_at > attempts.assigned_at) AS had_room
    FROM attempts JOIN tasks ON tasks.id = attempts.task_id
    WHERE attempts.id = :attempt_id AND attempts.node_id = :node_id
        AND attempts.state = 'lost' AND attempts.reason = 'lease_expired'
        AND tasks.state IN ('queued', 'assigned', 'running')
        AND CASE WHEN tasks.items IS NULL
            THEN tasks.state = 'queued' AND attempts.number = (
                SELECT max(number) FROM attempts AS every WHERE every.task_id = tasks.id)
            ELSE tasks.pending @> attempts.remaining END
        -- An attempt given up for exceeding its limit would be given up again at once; unless it
        -- has ended, and ends in this transaction.
        AND (:is_over OR now() < :overrun_duration::interval + coalesce(
            attempts.started_at + make_interval(secs => attempts.run_seconds_limit),
            attempts.fetched_at + make_interval(secs => attempts.prepare_seconds_limit)))
    FOR UPDATE OF attempts
), node AS (
    SELECT nodes.id
    FROM nodes JOIN accounts ON accounts.id = nodes.account_id, attempt
    WHERE nodes.id = :node_id AND nodes.state <> 'left' AND accounts.suspended_at IS NULL
        AND NOT EXISTS (SELECT FROM node_keys WHERE node_keys.id = nodes.node_key_id
            AND (revoked_at IS NOT NULL OR expires_at <= now()))
        AND (had_room OR nodes.cores - used_cores >= attempt.cores
            AND nodes.memory_bytes - used_memory_bytes >= attempt.memory_bytes
            AND nodes.disk_bytes - used_disk_bytes >= attempt.disk_bytes)
    FOR UPDATE OF nodes
), device AS (
    SELECT devices.id, share.milli, share.memory_bytes,
        may_serve_several(kind, description, true) AS may_stand_beside
    FROM attempt_devices AS share JOIN devices ON devices.id = share.device_id, attempt
    WHERE share.attempt_id = :attempt_id AND is_present AND standing = 'bound'
        AND availability <> 'sick'
        AND free_milli >= share.milli
        AND (had_room OR devices.memory_bytes - used_memory_bytes >= share.memory_bytes)
        AND (may_serve_several(kind, description, false) OR NOT EXISTS (
            SELECT FROM attempts AS beside
            JOIN attempt_devices AS theirs ON theirs.attempt_id = beside.id
            JOIN tasks AS their_task ON their_task.id = beside.task_id
            WHERE beside.node_id = :node_id AND beside.finished_at IS NULL
                AND theirs.device_id = devices.id
                AND beside.consumer_id <> attempt.consumer_id
                AND NOT (shares_device(attempt.requirements) AND shares_device(their_task.requirements)
                    AND (attempt.may_stand_beside OR may_serve_several(kind, description, true)))))
        AND EXISTS (SELECT FROM node)
    ORDER BY devices.id
    FOR UPDATE OF devices
), purse AS (
    SELECT balances.account_id FROM balances, attempt
    WHERE balances.account_id = attempt.consumer_id AND available_micro >= hold_micro
        AND (SELECT count(*) FROM device) >= 0
    FOR UPDATE OF balances
), guard AS (
    SELECT attempt.* FROM attempt, node, purse
    WHERE (SELECT count(*) FROM device)
        = (SELECT count(*) FROM attempt_devices WHERE attempt_id = :attempt_id)
), taken_devices AS (
    UPDATE devices SET free_milli = free_milli - device.milli,
        used_memory_bytes = used_memory_bytes + device.memory_bytes
    FROM device WHERE devices.id = device.id AND EXISTS (SELECT FROM guard)
), taken_node AS (
    UPDATE nodes SET
        used_cores = used_cores + guard.cores,
        used_memory_bytes = nodes.used_memory_bytes + guard.memory_bytes,
        used_disk_bytes = used_disk_bytes + guard.disk_bytes,
        lost_attempts = lost_attempts - (guard.consumer_id <> guard.provider_id)::integer
    FROM guard WHERE nodes.id = :node_id
), taken_task AS (
    UPDATE tasks SET
        state = CASE WHEN guard.started_at IS NOT NULL THEN 'running'
            WHEN tasks.state = 'queued' THEN 'assigned' ELSE tasks.state END,
        pending = tasks.pending - guard.remaining,
        losses = losses - 1,
        -- Other ranges of an array keep waiting for their time.
        not_before = CASE WHEN tasks.items IS NULL THEN NULL ELSE not_before END,
        reason = NULL, detail = '', exit_code = NULL, updated_at = now(), version = version + 1
    FROM guard WHERE tasks.id = guard.task_id
    RETURNING tasks.state
), adopted AS (
    UPDATE attempts SET
        state = CASE WHEN attempts.started_at IS NULL THEN 'granted' ELSE 'running' END,
        reason = NULL, detail = '', exit_code = NULL, usage = NULL, finished_at = NULL,
        has_share = true,
        adoptions = attempts.adoptions + 1, heard_at = now(), heard_since = now(),
        -- Charged at once for the time of its silence, and held for again.
        slices = 0, unfunded_at = NULL,
        next_slice_at = CASE WHEN attempts.started_at IS NOT NULL
                AND attempts.price_micro_per_hour > 0
                AND attempts.run_seconds_limit > :slice_seconds::double precision
            THEN now() END,
        may_stand_beside = attempts.may_stand_beside OR (SELECT bool_and(may_stand_beside) FROM device),
        lease_expires_at = now() + :lease_duration::interval
    FROM guard WHERE attempts.id = guard.id
    RETURNING attempts.state, attempts.adoptions
)
SELECT guard.task_id, guard.consumer_id, guard.hold_micro, guard.task_state AS task_state_before,
    taken_task.state AS task_state, adopted.state, adopted.adoptions
FROM guard, taken_task, adopted

-- name: expired
SELECT id FROM attempts
WHERE finished_at IS NULL AND lease_expires_at <= now()
ORDER BY lease_expires_at LIMIT 1000

-- name: silence
-- From the last heartbeat of every node. `led_until` is the end of the previous term.
SELECT now() AS now, leader.forgiven_beat_at,
    CASE WHEN isfinite(:led_until::timestamptz) THEN :led_until END AS led_until,
    (SELECT max(heartbeat_at) FROM nodes WHERE state <> 'left' AND heartbeat_at <= :led_until)
        AS last_beat_at,
    (SELECT min(heartbeat_at) FROM nodes WHERE state <> 'left' AND heartbeat_at > :led_until)
        AS next_beat_at,
    fallen.recent, fallen.quiet, fallen.newest_quiet_at
FROM leader, LATERAL (
    SELECT count(*) AS recent,
        count(*) FILTER (WHERE is_quiet) AS quiet,
        max(heartbeat_at) FILTER (WHERE is_quiet) AS newest_quiet_at
    FROM (
        SELECT heartbeat_at, heartbeat_at <= now() - :times.quiet_after::interval AND (
            leader.forgiven_beat_at IS NULL OR heartbeat_at > leader.forgiven_beat_at) AS is_quiet
        FROM nodes
        WHERE state <> 'left'
            AND heartbeat_at > now() - :times.quiet_after::interval - :times.together::interval
    ) AS heard
) AS fallen

-- name: forgive
-- Only by the leader, and recorded, so that the same silence is not forgiven twice.
UPDATE leader SET forgiven_beat_at = :grace.beat_at,
    forgiven_until = now() + :grace.lasting::interval
WHERE holder = :leadership.holder AND term = :leadership.term AND expires_at > now()
RETURNING term

-- name: prolong
-- Leases of nodes that were last seen within this period; without an end, also of those that are
-- back already: a poll marks a node as seen, but only its next heartbeat renews its leases.
WITH live AS (
    SELECT attempts.id FROM attempts JOIN nodes ON nodes.id = node_id
    WHERE finished_at IS NULL AND fetched_at IS NOT NULL
        AND heartbeat_at > :grace.since
        AND heartbeat_at <= coalesce(:grace.seen_until::timestamptz, 'infinity')
    ORDER BY attempts.id FOR UPDATE OF attempts
)
UPDATE attempts SET lease_expires_at = greatest(lease_expires_at, now() + :grace.lasting::interval)
FROM live WHERE attempts.id = live.id
