-- name: mark_seen
INSERT INTO instances (id, version) VALUES (:instance, :version)
ON CONFLICT (id) DO UPDATE SET seen_at = now()

-- name: leave
DELETE FROM instances WHERE id = :instance

-- name: delete_old
WITH gone AS (
    DELETE FROM instances WHERE id IN (
        SELECT id FROM instances WHERE seen_at < now() - :older_than::interval LIMIT :limit)
    RETURNING id
)
SELECT count(*) FROM gone
