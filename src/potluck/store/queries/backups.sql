-- name: begin
INSERT INTO backups (id, is_encrypted, guarded_until)
VALUES (:backup_id, :is_encrypted, now() + :guard::interval)
RETURNING started_at

-- name: now
SELECT clock_timestamp()

-- name: renew
UPDATE backups SET guarded_until = now() + :guard::interval
WHERE id = :backup_id AND finished_at IS NULL
RETURNING id

-- name: finish
UPDATE backups SET finished_at = now(), guarded_until = now(), size_bytes = :result.size_bytes,
    new_bytes = :result.new_bytes, blobs = :result.blobs, missing_blobs = :result.missing_blobs
WHERE id = :backup_id

-- name: give_up
DELETE FROM backups WHERE id = :backup_id AND finished_at IS NULL

-- name: add_restored
INSERT INTO backups (id, is_encrypted, started_at, finished_at, guarded_until)
VALUES (:backup_id, :is_encrypted, :started_at, :finished_at, :finished_at)

-- name: lock_removals
-- Before a removal. A backup that begins now waits until this transaction ends, and then its snapshot
-- does not have what this transaction removes.
SELECT pg_advisory_xact_lock_shared(:lock)

-- name: is_guarding
-- A separate statement, since its snapshot must be later than the lock.
SELECT EXISTS (SELECT FROM backups WHERE finished_at IS NULL AND guarded_until > now())

-- name: wait_for_removals
SELECT pg_advisory_xact_lock(:lock)

-- name: latest_finished_at
SELECT max(finished_at) FROM backups WHERE finished_at IS NOT NULL

-- name: delete_old
-- Those that were not finished were killed.
WITH gone AS (
    DELETE FROM backups WHERE id IN (
        SELECT id FROM backups
        WHERE coalesce(finished_at, guarded_until) < now() - :older_than::interval LIMIT :limit)
    RETURNING id
)
SELECT count(*) FROM gone
