-- name: add
-- Behind what there is of each task, in this order. The caller holds the locks on the tasks.
WITH piece AS (
    SELECT *, row_number() OVER (PARTITION BY task_id ORDER BY place) AS rank
    FROM unnest($1::text[], $2::text[], $3::integer[], $4::integer[], $5::boolean[], $6::bytea[],
            $7::bytea[], $8::bigint[])
        WITH ORDINALITY
        AS piece (task_id, attempt_id, start, "end", is_error, sealed_value, sha256, size_bytes,
            place)
), counted AS (
    UPDATE tasks SET result_count = result_count + new.pieces
    FROM (SELECT task_id, count(*)::integer AS pieces FROM piece GROUP BY task_id) AS new
    WHERE tasks.id = new.task_id
    RETURNING tasks.id, result_count - new.pieces AS before
)
INSERT INTO results
    (task_id, number, attempt_id, start, "end", is_error, sealed_value, sha256, size_bytes)
SELECT task_id, before + rank, attempt_id, start, "end", is_error, sealed_value, sha256, size_bytes
FROM piece JOIN counted ON counted.id = task_id

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
