-- Garbage collection in steps: tasks lose their files and results, accounts lose blobs that none of
-- their tasks names, bytes without an account are marked, and removed later.

-- name: to_clear
SELECT id FROM tasks
WHERE finished_at < now() - :older_than::interval AND cleared_at IS NULL
    AND id <> ALL(:excluded_ids::text[])
ORDER BY finished_at LIMIT :limit

-- name: attempts_with_logs
SELECT id FROM attempts WHERE task_id = :task_id AND log_pieces > 0

-- name: lock_task
SELECT id FROM tasks WHERE id = :task_id AND cleared_at IS NULL FOR UPDATE

-- name: forget_results
-- Together with the first part: a client that asks meanwhile must not wait for deleted results.
UPDATE tasks SET result_count = 0 WHERE id = :task_id AND result_count > 0

-- name: clear_task
UPDATE tasks SET cleared_at = now() WHERE id = :task_id

-- name: clear_logs
UPDATE attempts SET log_pieces = 0, log_bytes = 0, sealed_last_lines = NULL
WHERE task_id = :task_id AND (log_pieces > 0 OR sealed_last_lines IS NOT NULL)

-- name: clear_results
-- At most `limit` at a time.
WITH gone AS (
    DELETE FROM results
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM results WHERE task_id = :task_id LIMIT :limit))
    RETURNING number
), inputs AS (
    -- Of a call stream: few, since it is short.
    DELETE FROM item_batches WHERE task_id = :task_id
)
SELECT count(*) FROM gone

-- name: clear_last_lines
-- At most `limit` items at a time.
WITH gone AS (
    UPDATE failed_items SET sealed_last_lines = NULL
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM failed_items
        WHERE task_id = :task_id AND sealed_last_lines IS NOT NULL LIMIT :limit))
    RETURNING item
)
SELECT count(*) FROM gone

-- name: clear_files
-- At most `limit` at a time.
WITH gone AS (
    DELETE FROM task_blobs
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM task_blobs WHERE task_id = :task_id LIMIT :limit))
    RETURNING account_id, sha256
), due AS (
    SELECT account_id, sha256 FROM blob_claims
    WHERE (account_id, sha256) IN (SELECT account_id, sha256 FROM gone)
    ORDER BY sha256
    FOR NO KEY UPDATE
), to_be_looked_at AS (
    UPDATE blob_claims SET look_at = least(look_at, greatest(pinned_until, now()))
    FROM due WHERE blob_claims.account_id = due.account_id AND blob_claims.sha256 = due.sha256
)
SELECT count(*) FROM gone

-- name: forget_held
-- Sent by an attempt that ended without naming their purpose.
WITH gone AS (
    DELETE FROM task_blobs USING attempts
    WHERE role = 'held' AND attempts.id = attempt_id AND finished_at < now() - :older_than::interval
    RETURNING account_id, sha256
), due AS (
    SELECT account_id, sha256 FROM blob_claims
    WHERE (account_id, sha256) IN (SELECT account_id, sha256 FROM gone)
    ORDER BY account_id, sha256
    FOR NO KEY UPDATE
)
UPDATE blob_claims SET look_at = least(look_at, greatest(pinned_until, now()))
FROM due WHERE blob_claims.account_id = due.account_id AND blob_claims.sha256 = due.sha256

-- name: accounts_to_look_at
SELECT DISTINCT account_id FROM (
    SELECT account_id FROM blob_claims WHERE look_at <= now() ORDER BY look_at LIMIT :limit) AS due

-- name: look_at
-- Due claims. Pinned ones become due when the pin ends; those that tasks name when one of them lets
-- go, which is recorded, or once a day. A locked claim is about to be named, and skipped: nothing
-- waits here while holding other locks.
WITH longest AS MATERIALIZED (
    SELECT sha256 FROM blob_claims
    WHERE account_id = :account_id AND look_at <= now()
    ORDER BY look_at LIMIT :limit
), due AS (
    -- Locked in the common order.
    SELECT account_id, sha256 FROM blob_claims
    WHERE account_id = :account_id AND sha256 IN (SELECT sha256 FROM longest) AND look_at <= now()
    ORDER BY sha256
    FOR UPDATE SKIP LOCKED
), kept AS (
    UPDATE blob_claims
    SET look_at = CASE WHEN pinned_until > now() THEN pinned_until ELSE now() + interval '1 day' END
    FROM due WHERE blob_claims.account_id = due.account_id AND blob_claims.sha256 = due.sha256
        AND (pinned_until > now() OR EXISTS (
            SELECT FROM task_blobs
            WHERE task_blobs.account_id = due.account_id AND task_blobs.sha256 = due.sha256))
)
SELECT sha256 FROM due

-- name: give_up
-- A separate statement: the claims locked above can get no new name, and all earlier names are
-- visible.
DELETE FROM blob_claims
WHERE account_id = :account_id AND sha256 = ANY(:hashes::bytea[]) AND pinned_until <= now()
    AND NOT EXISTS (
        SELECT FROM task_blobs
        WHERE task_blobs.account_id = :account_id AND task_blobs.sha256 = blob_claims.sha256)
RETURNING sha256

-- name: mark
UPDATE blobs SET marked_at = now()
WHERE sha256 = ANY(:hashes::bytea[]) AND marked_at IS NULL
    AND NOT EXISTS (SELECT FROM blob_claims WHERE blob_claims.sha256 = blobs.sha256)

-- name: lock_marked
SELECT sha256 FROM blobs WHERE marked_at < now() - :older_than::interval
ORDER BY sha256 LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: unmark
-- A claim was made while the mark was set.
UPDATE blobs SET marked_at = NULL
WHERE sha256 = ANY(:hashes::bytea[])
    AND EXISTS (SELECT FROM blob_claims WHERE blob_claims.sha256 = blobs.sha256)

-- name: remove
DELETE FROM blobs
WHERE sha256 = ANY(:hashes::bytea[])
    AND NOT EXISTS (SELECT FROM blob_claims WHERE blob_claims.sha256 = blobs.sha256)
RETURNING object_key

-- name: ago
SELECT now() - :duration::interval

-- name: known_objects
SELECT object_key FROM blobs WHERE object_key = ANY(:object_keys::text[])
