-- Only ids, the newest first. Every filter is an equality or a range that an index starts with, so
-- a plan that PostgreSQL keeps for any values is a good one for all of them: there is no
-- `$1 IS NULL OR …`, and a filter that was not given names all that there is.

-- name: newest
SELECT id FROM tasks
WHERE account_id = $1 AND id >= $2 AND id < $3
ORDER BY id DESC LIMIT $4

-- name: newest_by_state
-- The newest of each state, and of these the newest: a state that is rare is not looked for among
-- millions of others.
SELECT newest.id
FROM unnest($5::text[]) AS states (state) CROSS JOIN unnest($6::text[]) AS kinds (kind)
CROSS JOIN LATERAL (
    SELECT tasks.id FROM tasks
    WHERE account_id = $1 AND tasks.state = states.state AND tasks.kind = kinds.kind
        AND tasks.id >= $2 AND tasks.id < $3
    ORDER BY tasks.id DESC LIMIT $4
) AS newest
ORDER BY newest.id DESC LIMIT $4

-- name: newest_by_name
SELECT newest.id
FROM unnest($5::text[]) AS states (state) CROSS JOIN unnest($6::text[]) AS kinds (kind)
CROSS JOIN LATERAL (
    SELECT tasks.id FROM tasks
    WHERE account_id = $1 AND tasks.name = $7
        AND tasks.state = states.state AND tasks.kind = kinds.kind
        AND tasks.id >= $2 AND tasks.id < $3
    ORDER BY tasks.id DESC LIMIT $4
) AS newest
ORDER BY newest.id DESC LIMIT $4
