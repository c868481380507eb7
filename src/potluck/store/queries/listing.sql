-- Only ids, the newest first. The filters are a key that one index alone has, so a plan that
-- PostgreSQL keeps for any values, or makes without statistics, is a good one for all of them: there
-- is no `$1 IS NULL OR …`, and a filter that was not given names all that there is. The newest of
-- each key, and of these the newest: a state that is rare is not looked for among millions of others.

-- name: newest_by_state
SELECT newest.id
FROM unnest($4::text[]) AS keys (key) CROSS JOIN LATERAL (
    SELECT id FROM tasks
    WHERE account_id || '/' || state || '/' || kind = keys.key
        AND id COLLATE "POSIX" >= $1 AND id COLLATE "POSIX" < $2
    ORDER BY id COLLATE "POSIX" DESC LIMIT $3
) AS newest
ORDER BY newest.id DESC LIMIT $3

-- name: newest_by_name
SELECT newest.id
FROM unnest($4::text[]) AS keys (key) CROSS JOIN LATERAL (
    SELECT id FROM tasks
    WHERE account_id || '/' || name || '/' || state || '/' || kind = keys.key
        AND id COLLATE "POSIX" >= $1 AND id COLLATE "POSIX" < $2
    ORDER BY id COLLATE "POSIX" DESC LIMIT $3
) AS newest
ORDER BY newest.id DESC LIMIT $3
