-- name: hold_after
-- Shared, in id order: none of them ends between this look and the rows that are written by it.
SELECT id, state FROM tasks WHERE id = ANY($1::text[]) AND account_id = $2 ORDER BY id FOR SHARE

-- name: insert
INSERT INTO dependencies (task_id, after_id) SELECT $1, unnest($2::text[])

-- name: decided
SELECT task_id, after_id, outcome FROM dependencies
WHERE outcome IS NOT NULL ORDER BY task_id, after_id LIMIT $1

-- name: fallen
-- All that wait for these, for those that wait for them, and so on.
WITH RECURSIVE fallen AS (
    SELECT task_id, after_id FROM dependencies
    WHERE after_id = ANY($1::text[]) AND outcome IS NULL
    UNION
    SELECT later.task_id, later.after_id
    FROM dependencies AS later JOIN fallen ON later.after_id = fallen.task_id
    WHERE later.outcome IS NULL
)
SELECT task_id, after_id FROM fallen LIMIT $2

-- name: lock_tasks
SELECT FROM tasks WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE

-- name: release
-- Each counts once, also if two leaders come to it.
WITH released AS (
    DELETE FROM dependencies
    USING unnest($1::text[], $2::text[]) AS told (task_id, after_id)
    WHERE dependencies.task_id = told.task_id AND dependencies.after_id = told.after_id
    RETURNING dependencies.task_id
), counted AS (
    SELECT task_id, count(*)::integer AS number FROM released GROUP BY task_id
)
UPDATE tasks SET waits_for = waits_for - number, updated_at = now(), version = version + 1
FROM counted WHERE tasks.id = counted.task_id
