-- name: progress
-- Of these tasks, those that are the account's.
SELECT id, state, reason, detail, result_count, cleared_at IS NOT NULL AS is_cleared FROM tasks
WHERE id = ANY($1::text[]) AND account_id = $2

-- name: pieces
-- Of each task what is behind so many pieces, no more than $4 of each. An answer has its measure.
WITH found AS (
    SELECT results.*, place,
        sum(octet_length(coalesce(sealed_value, ''))) OVER (ORDER BY place, number)
            - octet_length(coalesce(sealed_value, '')) AS bytes_before
    FROM unnest($1::text[], $2::integer[]) WITH ORDINALITY AS wanted (id, behind, place)
    CROSS JOIN LATERAL (
        SELECT * FROM results
        WHERE task_id = wanted.id AND number > wanted.behind ORDER BY number LIMIT $4
    ) AS results
)
SELECT found.task_id, found.number, start, "end", is_error, sealed_value,
    encode(sha256, 'hex') AS sha256, size_bytes, node_id, accounts.address AS wallet
FROM found
JOIN attempts ON attempts.id = attempt_id
JOIN accounts ON accounts.id = provider_id
WHERE bytes_before < $3::bigint
ORDER BY place, found.number
