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
-- Failed items are rounded to blocks, so that the number of ranges is bounded.
SELECT items AS total, pending, cancelled, is_stream, open_until,
    (SELECT range_agg(part) FROM attempts, unnest(remaining) AS part
     WHERE task_id = tasks.id AND finished_at IS NULL) AS running,
    (SELECT range_agg(int4range(item / step * step, least((item / step + 1) * step, items)))
     FROM failed_items, (SELECT (items + 4999) / 5000 AS step) AS block
     WHERE task_id = tasks.id AND is_final) AS failed
FROM tasks WHERE id = :task_id AND items IS NOT NULL

-- name: page
SELECT item, failures, is_final, attempt_id, reason, exit_code, detail, sealed_last_lines
FROM failed_items
WHERE task_id = :task_id AND item > :after_item ORDER BY item LIMIT :limit
