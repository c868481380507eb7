-- name: failures
SELECT item, failures FROM failed_items WHERE task_id = :task_id AND item = ANY(:items::integer[])

-- name: fail
INSERT INTO failed_items
    (task_id, attempt_id, item, failures, is_final, reason, exit_code, detail, sealed_last_lines)
SELECT :task_id, :attempt_id, failed.*
FROM unnest(:failed_items[].item::integer[], :failed_items[].failures::integer[],
    :failed_items[].is_final::boolean[], :failed_items[].reason::text[],
    :failed_items[].exit_code::integer[], :failed_items[].detail::text[],
    :sealed_last_lines::bytea[])
    AS failed
ON CONFLICT (task_id, item) DO UPDATE SET
    attempt_id = excluded.attempt_id, failures = excluded.failures, is_final = excluded.is_final,
    reason = excluded.reason, exit_code = excluded.exit_code, detail = excluded.detail,
    sealed_last_lines = excluded.sealed_last_lines

-- name: states
-- Of the items in the span. Ranges are rounded outwards to blocks, so that their number is bounded
-- however the states of neighbours alternate; the counts are exact.
WITH task AS (
    SELECT *, int4range(least(:first_item::integer, items), least(:end_item::integer, items)) AS span
    FROM tasks WHERE id = :task_id AND items IS NOT NULL
), block AS (
    SELECT span, greatest(1, ceil((upper(span) - lower(span))::double precision / :most_blocks))::integer
        AS block_items
    FROM task
), parts AS (
    SELECT 'pending' AS state, part FROM task, unnest(pending) AS part
    UNION ALL SELECT 'cancelled', part FROM task, unnest(cancelled) AS part
    UNION ALL SELECT 'running', part FROM attempts, unnest(remaining) AS part
        WHERE task_id = :task_id AND finished_at IS NULL
    UNION ALL SELECT 'failed', int4range(item, item + 1) FROM failed_items
        WHERE task_id = :task_id AND is_final AND item >= :first_item AND item < :end_item
), rounded AS (
    SELECT state, range_agg(span * int4range(
        lower(part) / block_items * block_items,
        ((upper(part) - 1) / block_items + 1) * block_items)) AS ranges
    FROM parts, block WHERE part && span GROUP BY state
)
SELECT items, is_stream, open_until, block_items,
    coalesce((SELECT sum(upper(part) - lower(part)) FROM unnest(pending) AS part), 0)::integer
        AS items_pending,
    coalesce((SELECT sum(upper(part) - lower(part)) FROM unnest(cancelled) AS part), 0)::integer
        AS items_cancelled,
    items_succeeded, items_failed,
    (SELECT ranges FROM rounded WHERE state = 'pending') AS pending,
    (SELECT ranges FROM rounded WHERE state = 'running') AS running,
    (SELECT ranges FROM rounded WHERE state = 'failed') AS failed,
    (SELECT ranges FROM rounded WHERE state = 'cancelled') AS cancelled
FROM task, block

-- name: page
SELECT item, failures, is_final, attempt_id, reason, exit_code, detail, sealed_last_lines
FROM failed_items
WHERE task_id = :task_id AND item > :after_item ORDER BY item LIMIT :limit
