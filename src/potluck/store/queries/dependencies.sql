-- name: hold_after
-- Shared locks, in id order: none of them ends before the rows that depend on this read are
-- written.
SELECT id, state FROM tasks
WHERE id = ANY(:task_ids::text[]) AND account_id = :account_id ORDER BY id FOR SHARE

-- name: states
SELECT id, state FROM tasks WHERE id = ANY(:task_ids::text[]) AND account_id = :account_id

-- name: insert
INSERT INTO dependencies (task_id, after_id)
SELECT unnest(:task_ids::text[]), unnest(:after_ids::text[])

-- name: decided
SELECT task_id, after_id, outcome
FROM ended_tasks CROSS JOIN LATERAL (
    SELECT task_id FROM dependencies WHERE after_id = ended_tasks.after_id
    ORDER BY task_id LIMIT :limit
) AS waiting
ORDER BY after_id, task_id LIMIT :limit

-- name: fallen
-- Direct and indirect dependents, except for those whose own dependencies have ended: their turn
-- comes by itself.
WITH RECURSIVE fallen AS (
    SELECT task_id, after_id FROM dependencies
    WHERE after_id = ANY(:task_ids::text[])
        AND NOT EXISTS (SELECT FROM ended_tasks AS ended WHERE ended.after_id = dependencies.after_id)
    UNION
    SELECT later.task_id, later.after_id
    FROM dependencies AS later JOIN fallen ON later.after_id = fallen.task_id
    WHERE NOT EXISTS (SELECT FROM ended_tasks AS ended WHERE ended.after_id = later.after_id)
)
SELECT task_id, after_id FROM fallen LIMIT :limit

-- name: lock_tasks
SELECT 1 FROM tasks WHERE id = ANY(:task_ids::text[]) ORDER BY id FOR UPDATE

-- name: release
-- Each counts once, even if two leaders process it.
WITH released AS (
    DELETE FROM dependencies
    USING unnest(:dependencies[].task_id::text[], :dependencies[].after_id::text[])
        AS told (task_id, after_id)
    WHERE dependencies.task_id = told.task_id AND dependencies.after_id = told.after_id
    RETURNING dependencies.task_id
), counted AS (
    SELECT task_id, count(*)::integer AS number FROM released GROUP BY task_id
)
UPDATE tasks SET waits_for = waits_for - number, updated_at = now(), version = version + 1
FROM counted WHERE tasks.id = counted.task_id

-- name: forget
-- Those without any remaining dependents.
DELETE FROM ended_tasks
WHERE after_id = ANY(:after_ids::text[])
    AND NOT EXISTS (SELECT FROM dependencies WHERE dependencies.after_id = ended_tasks.after_id)
