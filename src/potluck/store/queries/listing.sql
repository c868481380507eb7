-- Only ids, newest first. The filters form a key of a single index, so a generic plan, or one
-- without statistics, is good for all values: there is no `:name IS NULL OR …`, and an omitted
-- filter lists all values. The newest of each key, and of these the newest: rare states are not
-- searched among millions of others.

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
