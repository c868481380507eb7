-- name: ended
-- What remains of a task, to submit it again. Of an array, items that were never granted, that were
-- given back at its end, or that failed permanently are not done.
SELECT name, state, sealed_spec, requirements, limits, priority, max_attempts, delay_seconds, expected_seconds,
    extract(epoch FROM start_before - created_at)::double precision AS start_within_seconds,
    items, allow_failures, items_succeeded, items_failed, items_seconds, secret_count, finished_at, is_stream,
    CASE WHEN items IS NOT NULL THEN pending + cancelled + coalesce((
        SELECT range_agg(int4range(item, item + 1)) FROM failed_items
        WHERE task_id = tasks.id AND is_final
    ), '{}') END AS not_done
FROM tasks WHERE id = :task_id AND account_id = :account_id
