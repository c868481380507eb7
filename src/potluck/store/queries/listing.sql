-- Only ids, the newest first. The filters are a key that one index alone has, so a plan that
-- PostgreSQL keeps for any values, or makes without statistics, is a good one for all of them: there
-- is no `:name IS NULL OR …`, and a filter that was not given names all that there is. The newest of
-- each key, and of these the newest: a state that is rare is not looked for among millions of others.

-- name: newest_by_state
SELECT newest.id
FROM unnest(:keys::text[]) AS keys (key) CROSS JOIN LATERAL (
    SELECT id FROM tasks
    WHERE account_id || '/' || state || '/' || kind = keys.key
        AND id COLLATE "POSIX" >= :first_id AND id COLLATE "POSIX" < :before_id
    ORDER BY id COLLATE "POSIX" DESC LIMIT :limit
) AS newest
ORDER BY newest.id DESC LIMIT :limit

-- name: newest_by_name
SELECT newest.id
FROM unnest(:keys::text[]) AS keys (key) CROSS JOIN LATERAL (
    SELECT id FROM tasks
    WHERE account_id || '/' || name || '/' || state || '/' || kind = keys.key
        AND id COLLATE "POSIX" >= :first_id AND id COLLATE "POSIX" < :before_id
    ORDER BY id COLLATE "POSIX" DESC LIMIT :limit
) AS newest
ORDER BY newest.id DESC LIMIT :limit
