-- Call streams. The functions are in the schema: each locks the task, and then reads what may have
-- changed while it waited, in one round trip.

-- `|| ''` keeps a condition from being looked up in an index that has every node of an account, or every
-- device that is offered: the planner would read all of it where it knows of few.

-- name: append
SELECT * FROM append_items(
    :task_id, :account_id, :start, :count, :digest, :sealed_inputs, :times.most_items,
    :times.idle_seconds, :times.longest_seconds, :times.ahead_seconds, :times.funded_seconds)

-- name: insert_batch
INSERT INTO item_batches (task_id, start, "end", digest, sealed_inputs)
VALUES (:task_id, 0, :count, :digest, :sealed_inputs)

-- name: open
UPDATE tasks SET is_stream = true, allow_failures = 1000000,
    open_until = now() + make_interval(secs => :idle_seconds)
WHERE id = :task_id

-- name: accept
SELECT * FROM accept_items(
    :attempt_id, :node_id, :runs[].start::integer[], :runs[].end::integer[], :run_seconds,
    :sealed_values::bytea[], :sizes::bigint[], :times.ahead_seconds, :times.funded_seconds)

-- name: refill
SELECT refill_stream(:task_id, :times.ahead_seconds, :times.funded_seconds)

-- name: fetch
-- The node's leases, and whether it is known as polling, so that nothing has to be written. For its standing
-- attempts: new items with their inputs, in order, whether an attempt is released, and which of its items are
-- cancelled, if the node knows of fewer. At most `limit` batches: the next answer has the rest. No row if
-- the caller has no rights any more: the poll may have waited long.
WITH node AS MATERIALIZED (
    SELECT nodes.state = 'online' AND is_polling
            AND heartbeat_at > now() - :min_heartbeat_age::interval AS is_current,
        EXISTS (SELECT FROM wishes WHERE node_id = :node_id) AS has_wishes,
        ARRAY(SELECT id FROM attempts WHERE node_id = :node_id AND finished_at IS NULL) AS live,
        ARRAY(SELECT id FROM attempts WHERE id = ANY(:held_ids) AND node_id = :node_id
            AND state = 'lost' AND reason = 'lease_expired' ORDER BY id) AS lost
    FROM nodes JOIN accounts ON accounts.id = account_id
    WHERE nodes.id = :node_id AND account_id || '' = :owner.account_id
        AND node_key_id IS NOT DISTINCT FROM :owner.node_key_id
        AND nodes.state <> 'left' AND suspended_at IS NULL
        AND NOT EXISTS (SELECT FROM node_keys WHERE node_keys.id = node_key_id
            AND (revoked_at IS NOT NULL OR expires_at <= now()))
)
SELECT node.*, new.* FROM node LEFT JOIN LATERAL (
    SELECT attempts.id, task_id, released_at IS NOT NULL AS is_released,
        lower(part) AS start, upper(part) AS "end",
        batch.start AS batch_start, batch."end" AS batch_end, batch.sealed_inputs,
        CASE WHEN known.cancelled < (SELECT sum(upper(each) - lower(each))
            FROM unnest(gone.items) AS each) THEN gone.items END AS cancelled
    FROM unnest(:positions[].attempt_id::text[], :positions[].next_item::integer[],
        :positions[].cancelled::integer[]) AS known (id, next_item, cancelled)
    JOIN attempts ON attempts.id = known.id
    CROSS JOIN LATERAL (
        SELECT tasks.cancelled * int4multirange(attempts.items) AS items
        FROM tasks WHERE tasks.id = attempts.task_id OFFSET 0
    ) AS cancelled
    CROSS JOIN LATERAL (
        -- It runs items in order, so it has passed all before the last one that it reported. Of those only
        -- the number of cancelled ones counts: they are one range. Unknown if others have some of its range.
        SELECT upper(int4multirange(int4range(lower(attempts.items), coalesce(lower(remaining),
            upper(attempts.items)))) - cancelled.items) AS place
        WHERE items_done + (SELECT coalesce(sum(upper(each) - lower(each)), 0)
                FROM unnest(remaining + cancelled.items) AS each)
            = upper(attempts.items) - lower(attempts.items)
        UNION ALL SELECT NULL
        LIMIT 1
    ) AS passed
    CROSS JOIN LATERAL (
        SELECT CASE WHEN passed.place IS NULL THEN cancelled.items ELSE
            int4multirange(int4range(passed.place - (
                SELECT coalesce(sum(upper(each) - lower(each)), 0)
                FROM unnest(cancelled.items * int4multirange(int4range(NULL, passed.place))) AS each
            )::integer, passed.place))
            + cancelled.items * int4multirange(int4range(passed.place, NULL)) END AS items
        OFFSET 0
    ) AS gone
    LEFT JOIN LATERAL unnest(remaining * int4multirange(int4range(known.next_item, NULL)))
        AS part ON true
    LEFT JOIN LATERAL (
        SELECT item_batches.start, item_batches."end", sealed_inputs FROM item_batches
        WHERE item_batches.task_id = attempts.task_id
            AND item_batches."end" > lower(part) AND item_batches."end" < upper(part) + :most_count
            AND item_batches.start < upper(part)
        ORDER BY item_batches."end" LIMIT :limit
    ) AS batch ON part IS NOT NULL
    WHERE attempts.node_id = :node_id AND finished_at IS NULL
    ORDER BY attempts.id, lower(part), batch."end"
    LIMIT :limit
) AS new ON true
ORDER BY new.id, new.start, new.batch_end

-- name: batch_of_item
SELECT start, "end", sealed_inputs FROM item_batches
WHERE task_id = :task_id AND "end" > :item ORDER BY "end" LIMIT 1

-- name: batches
-- None if they have more bytes in all than this: a stream may have gigabytes of them.
SELECT start, "end", sealed_inputs FROM item_batches
WHERE task_id = :task_id AND :most_bytes >= (
    SELECT sum(octet_length(sealed_inputs)) FROM item_batches WHERE task_id = :task_id)
ORDER BY "end"

-- name: lock
SELECT state, open_until IS NOT NULL AS is_open, pending FROM tasks
WHERE id = :task_id AND account_id = :account_id AND is_stream FOR UPDATE

-- name: lock_attempts
-- Before several statements about a stream in one transaction. An attempt that is assigned while this
-- waits for the task is newer than all others, so it may be locked after them.
WITH task AS (SELECT id FROM tasks WHERE id = :task_id AND is_stream FOR UPDATE)
SELECT FROM attempts
WHERE task_id = :task_id AND finished_at IS NULL AND (SELECT count(*) FROM task) = 1
ORDER BY id FOR UPDATE

-- name: close
UPDATE tasks SET open_until = NULL, updated_at = now(), version = version + 1 WHERE id = :task_id

-- name: release_task
WITH live AS (
    SELECT id FROM attempts WHERE task_id = :task_id AND finished_at IS NULL AND released_at IS NULL
    ORDER BY id FOR UPDATE
)
UPDATE attempts SET released_at = now() FROM live WHERE attempts.id = live.id
RETURNING node_id

-- name: overdue
-- Those that have had no append for long, or that are old.
SELECT id, account_id FROM tasks
WHERE open_until IS NOT NULL AND (
    open_until <= now() OR created_at + make_interval(secs => :longest_seconds) <= now())
ORDER BY open_until LIMIT 100

-- name: unfinished
-- Closed ones with nothing left to do, whose last attempt ended while they were being closed.
SELECT id, account_id FROM tasks
WHERE is_stream AND open_until IS NULL AND state = 'queued' AND isempty(pending)
    AND finished_at IS NULL
LIMIT 100

-- name: standing
-- From the few open streams, by the index.
SELECT attempts.id, task_id, node_id,
    extract(epoch FROM now() - assigned_at)::double precision AS turn_seconds,
    coalesce(extract(epoch FROM now() - idle_since), 0)::double precision AS idle_seconds,
    released_at IS NOT NULL AS is_released
FROM tasks JOIN attempts ON task_id = tasks.id
WHERE tasks.is_stream AND tasks.finished_at IS NULL AND attempts.finished_at IS NULL
ORDER BY attempts.id

-- name: release
WITH live AS (
    SELECT id FROM attempts
    WHERE id = ANY(:attempt_ids::text[]) AND finished_at IS NULL AND released_at IS NULL
    ORDER BY id FOR UPDATE
)
UPDATE attempts SET released_at = now() FROM live WHERE attempts.id = live.id

-- name: call
-- Where an item of an array is.
SELECT tasks.state AS task_state, tasks.pending @> :item::integer AS is_pending,
    tasks.cancelled @> :item AS is_cancelled,
    failed.reason, failed.detail, failed.exit_code, failed.sealed_last_lines,
    live.id AS attempt_id, live.node_id, live.state AS attempt_state, lower(live.remaining) = :item AS is_next
FROM tasks
LEFT JOIN failed_items AS failed
    ON failed.task_id = tasks.id AND failed.item = :item AND failed.is_final
LEFT JOIN attempts AS live
    ON live.task_id = tasks.id AND live.finished_at IS NULL AND live.remaining @> :item
WHERE tasks.id = :task_id AND tasks.items > :item

-- name: cancel_item
WITH taken AS (
    UPDATE attempts SET remaining = remaining - int4multirange(int4range(:item, :item + 1)),
        idle_since = CASE WHEN isempty(remaining - int4multirange(int4range(:item, :item + 1)))
            THEN now() ELSE idle_since END
    WHERE task_id = :task_id AND finished_at IS NULL AND remaining @> :item::integer
)
UPDATE tasks SET pending = pending - int4multirange(int4range(:item, :item + 1)),
    cancelled = cancelled + int4multirange(int4range(:item, :item + 1)),
    updated_at = now(), version = version + 1
WHERE id = :task_id
