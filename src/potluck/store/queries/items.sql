-- name: failures
SELECT item, failures FROM failed_items WHERE task_id = $1 AND item = ANY($2::integer[])

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
