-- name: lock_range
-- The task before the attempt, as everywhere; all that is decided by is on these two rows.
WITH task AS (
    SELECT id, max_attempts, pending, kind FROM tasks
    WHERE id = (SELECT task_id FROM attempts WHERE id = $1)
    FOR UPDATE
)
SELECT task_id, consumer_id, kind, remaining, max_attempts,
    (SELECT count(*) FROM unnest(task.pending)) AS pending_pieces,
    -- That no item has accounted for. Of the whole attempt, and from when the node had it: after an
    -- outage many parts come at once, together with the word that it was started.
    extract(epoch FROM now() - coalesce(fetched_at, assigned_at))::double precision - items_seconds
        AS most_seconds
FROM attempts JOIN task ON task.id = task_id
WHERE attempts.id = $1 AND node_id = $2 AND finished_at IS NULL AND items IS NOT NULL
FOR UPDATE OF attempts

-- name: failures
SELECT item, failures FROM failed_items WHERE task_id = $1 AND item = ANY($2::integer[])

-- name: accept
WITH done AS (
    UPDATE attempts SET
        remaining = remaining - $3::int4multirange,
        items_done = items_done + $4, items_failed = items_failed + $4 - $6,
        items_seconds = items_seconds + $5, progressed_at = now()
    WHERE id = $2
)
UPDATE tasks SET
    items_succeeded = items_succeeded + $6,
    pending = pending + $7::int4multirange, items_failed = items_failed + $8,
    items_seconds = items_seconds + $5,
    -- Ranges that failed as a whole count in a row.
    failures = 0,
    updated_at = now(), version = version + 1
WHERE id = $1

-- name: fail
INSERT INTO failed_items (task_id, attempt_id, item, failures, is_final, reason, exit_code, detail)
SELECT $1, $2, failed.*
FROM unnest($3::integer[], $4::integer[], $5::boolean[], $6::text[], $7::integer[], $8::text[])
    AS failed
ON CONFLICT (task_id, item) DO UPDATE SET
    attempt_id = excluded.attempt_id, failures = excluded.failures, is_final = excluded.is_final,
    reason = excluded.reason, exit_code = excluded.exit_code, detail = excluded.detail

-- name: page
SELECT item, failures, is_final, attempt_id, reason, exit_code, detail
FROM failed_items
WHERE task_id = $1 AND item > $2 ORDER BY item LIMIT $3
