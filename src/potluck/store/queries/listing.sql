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

-- name: newest_like
-- The names of the newest tasks of these keys are compared: as many as the limit says, whatever is
-- found. `last_id` is the oldest that was compared.
WITH compared AS MATERIALIZED (
    SELECT newest.id, newest.name
    FROM unnest(:keys::text[]) AS keys (key) CROSS JOIN LATERAL (
        SELECT id, name FROM tasks
        WHERE account_id || '/' || state || '/' || kind = keys.key
            AND id COLLATE "POSIX" >= :first_id AND id COLLATE "POSIX" < :before_id
        ORDER BY id COLLATE "POSIX" DESC LIMIT :limit
    ) AS newest
    ORDER BY newest.id COLLATE "POSIX" DESC LIMIT :limit
)
SELECT ARRAY(
        SELECT id FROM compared WHERE position(lower(:part::text) IN lower(name)) > 0
        ORDER BY id COLLATE "POSIX" DESC LIMIT :most_found
    ) AS ids,
    min(id COLLATE "POSIX") AS last_id, count(*) AS compared
FROM compared

-- name: newest_in_pool
SELECT newest.id
FROM unnest(:keys::text[]) AS keys (key) CROSS JOIN LATERAL (
    SELECT id FROM tasks
    WHERE state || '/' || kind = keys.key
        AND id COLLATE "POSIX" >= :first_id AND id COLLATE "POSIX" < :before_id
    ORDER BY id COLLATE "POSIX" DESC LIMIT :limit
) AS newest
ORDER BY newest.id DESC LIMIT :limit

-- name: pool_tasks
-- What admins may see of them; not what they are.
SELECT tasks.id, account_id, address, label, kind, state, reason, tasks.created_at, started_at,
    finished_at, charge_micro, items, ARRAY(
        SELECT DISTINCT node_id FROM attempts
        WHERE task_id = tasks.id AND attempts.finished_at IS NULL ORDER BY node_id LIMIT 10
    ) AS node_ids
FROM tasks JOIN accounts ON accounts.id = account_id
WHERE tasks.id = ANY(:task_ids)
ORDER BY tasks.id DESC

-- name: count_by_state
-- Each key up to a limit: a count of a million takes time and helps no reader.
SELECT keys.key, counted.tasks
FROM unnest(:keys::text[]) AS keys (key) CROSS JOIN LATERAL (
    SELECT count(*) AS tasks FROM (
        SELECT FROM tasks
        WHERE account_id || '/' || state || '/' || kind = keys.key
            AND id COLLATE "POSIX" >= :first_id AND id COLLATE "POSIX" < :before_id
        LIMIT :limit
    ) AS found
) AS counted

-- name: count_by_name
SELECT keys.key, counted.tasks
FROM unnest(:keys::text[]) AS keys (key) CROSS JOIN LATERAL (
    SELECT count(*) AS tasks FROM (
        SELECT FROM tasks
        WHERE account_id || '/' || name || '/' || state || '/' || kind = keys.key
            AND id COLLATE "POSIX" >= :first_id AND id COLLATE "POSIX" < :before_id
        LIMIT :limit
    ) AS found
) AS counted

-- name: count_like
-- Of the newest tasks of each key, as many as the limit says.
SELECT keys.key, counted.tasks, counted.compared
FROM unnest(:keys::text[]) AS keys (key) CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE position(lower(:part::text) IN lower(name)) > 0) AS tasks, count(*) AS compared
    FROM (
        SELECT name FROM tasks
        WHERE account_id || '/' || state || '/' || kind = keys.key
            AND id COLLATE "POSIX" >= :first_id AND id COLLATE "POSIX" < :before_id
        ORDER BY id COLLATE "POSIX" DESC LIMIT :limit
    ) AS found
) AS counted
