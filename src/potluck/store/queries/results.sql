-- name: find
-- The result that contains this item.
SELECT results.task_id, start, "end", is_error, sealed_value,
    encode(sha256, 'hex') AS sha256, size_bytes, node_id, accounts.address AS wallet
FROM results
JOIN attempts ON attempts.id = attempt_id
JOIN accounts ON accounts.id = provider_id
WHERE results.task_id = :task_id AND start <= :item AND "end" > :item
ORDER BY results.number LIMIT 1

-- name: look
-- The progress of those tasks that are the account's, with at most `limit` pieces of each after the
-- given counts, within a limit of bytes.
WITH task AS (
    SELECT tasks.id, state, reason, detail, result_count, cleared_at IS NOT NULL AS is_cleared,
        behind, place, attempt_id, sealed_last_lines, cancelled
    FROM unnest(:task_ids::text[], :behind::integer[]) WITH ORDINALITY AS wanted (id, behind, place)
    JOIN tasks ON tasks.id = wanted.id
    LEFT JOIN LATERAL (
        -- Of a failed call: what its last attempt wrote.
        SELECT attempts.id AS attempt_id, sealed_last_lines FROM attempts
        WHERE tasks.state = 'failed' AND tasks.items IS NULL AND attempts.task_id = tasks.id
        ORDER BY number DESC LIMIT 1
    ) AS last ON true
    WHERE account_id = :account_id
), found AS (
    SELECT results.*, sum(octet_length(coalesce(sealed_value, ''))) OVER (ORDER BY place, number)
        - octet_length(coalesce(sealed_value, '')) AS bytes_before
    FROM task CROSS JOIN LATERAL (
        SELECT * FROM results
        WHERE result_count > behind AND task_id = task.id AND number > behind
        ORDER BY number LIMIT :limit
    ) AS results
), piece AS (
    SELECT found.task_id, found.number, start, "end", is_error, sealed_value,
        encode(sha256, 'hex') AS sha256, size_bytes, node_id, accounts.address AS wallet
    FROM found
    JOIN attempts ON attempts.id = attempt_id
    JOIN accounts ON accounts.id = provider_id
    WHERE bytes_before < :max_bytes::bigint
)
SELECT task.id, state, reason, detail, result_count, is_cleared, attempt_id, sealed_last_lines,
    cancelled, piece.*
FROM task LEFT JOIN piece ON piece.task_id = task.id
ORDER BY place, number
