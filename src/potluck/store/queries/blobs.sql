-- Locked after a task and its attempt: the account's use, and then its blobs and claims, each in
-- the order of their hashes. Extending a claim needs no earlier lock.

-- name: lock_use
-- Creates the row too, so that there is one to lock. Returns what bytes of these sizes would add.
INSERT INTO blob_use (account_id) VALUES (:account_id)
ON CONFLICT (account_id) DO UPDATE SET used_bytes = blob_use.used_bytes
RETURNING used_bytes, (SELECT max_blob_bytes FROM accounts WHERE id = :account_id),
    (SELECT coalesce(sum(counted_bytes(size)), 0)::bigint
        FROM unnest(:new_sizes::bigint[]) AS new (size)) AS added_bytes

-- name: renew
-- The account already has it: it is kept longer.
UPDATE blob_claims SET
    pinned_until = greatest(pinned_until, now() + :pin_duration::interval),
    look_at = greatest(look_at, now() + :pin_duration::interval)
WHERE account_id = :account_id AND sha256 = :sha256 AND size_bytes = :size_bytes
RETURNING sha256

-- name: hold
-- Keeps the account's claims until this transaction records their purpose. Many may hold the same
-- claim at once; only a release of claims is excluded, and it does not wait.
SELECT sha256, size_bytes FROM blob_claims
WHERE account_id = :account_id AND sha256 = ANY(:hashes::bytea[])
ORDER BY sha256
FOR KEY SHARE

-- name: register
-- The object that holds these bytes: the new one, or an existing one.
INSERT INTO blobs (sha256, size_bytes, object_key)
SELECT * FROM unnest(:hashes::bytea[], :sizes::bigint[], :object_keys::text[]) AS new ORDER BY 1
ON CONFLICT (sha256) DO UPDATE SET marked_at = NULL
RETURNING sha256, size_bytes, object_key

-- name: claim
INSERT INTO blob_claims (account_id, sha256, size_bytes, pinned_until, look_at)
SELECT :account_id, sha256, size_bytes, now() + :pin_duration::interval,
    now() + :pin_duration::interval
FROM unnest(:hashes::bytea[], :sizes::bigint[]) AS new (sha256, size_bytes) ORDER BY 2
ON CONFLICT (account_id, sha256) DO UPDATE SET
    pinned_until = greatest(blob_claims.pinned_until, excluded.pinned_until),
    look_at = greatest(blob_claims.look_at, excluded.look_at)

-- name: name_input
INSERT INTO task_blobs (task_id, role, path, account_id, sha256, size_bytes)
SELECT task_id, 'input', encode(sha256, 'hex'), :account_id, sha256, size_bytes
FROM unnest(:task_ids::text[], :hashes::bytea[], :sizes::bigint[])
    AS new (task_id, sha256, size_bytes)
ORDER BY sha256

-- name: name_for_attempt
-- Outputs of the attempt, or sent blobs without a purpose yet; a repeated path replaces the first.
INSERT INTO task_blobs (task_id, role, attempt_id, path, account_id, sha256, size_bytes)
SELECT :source.task_id, :role, :source.attempt_id, path, :source.account_id, sha256, size_bytes
FROM unnest(:paths::text[], :hashes::bytea[], :sizes::bigint[]) AS new (path, sha256, size_bytes)
ORDER BY sha256
ON CONFLICT (task_id, role, coalesce(attempt_id, ''), path)
DO UPDATE SET sha256 = excluded.sha256, size_bytes = excluded.size_bytes

-- name: sent
-- Those of the hashes that this attempt has sent, for any purpose.
SELECT DISTINCT sha256, size_bytes FROM task_blobs
WHERE attempt_id = :attempt_id AND sha256 = ANY(:hashes::bytea[])
    AND role IN ('held', 'output', 'result')

-- name: let_go
-- They have a purpose now.
DELETE FROM task_blobs
WHERE attempt_id = :attempt_id AND role = 'held' AND sha256 = ANY(:hashes::bytea[])

-- name: files_left
-- By attempt alone: an array has many, and all of its files would be read for each.
SELECT count(*) FROM task_blobs WHERE role = 'output' AND attempt_id = :attempt_id

-- name: replace_checkpoint
-- The old one becomes due at once: it may be large, and is replaced every few minutes.
WITH old AS (
    DELETE FROM task_blobs WHERE task_id = :task_id AND role = 'checkpoint'
    RETURNING account_id, sha256
)
UPDATE blob_claims SET look_at = now()
FROM old WHERE blob_claims.account_id = old.account_id AND blob_claims.sha256 = old.sha256

-- name: keep_checkpoint
WITH secured AS (
    UPDATE attempts SET checkpoint_at = now() WHERE id = :sender.attempt_id
)
INSERT INTO task_blobs (task_id, role, attempt_id, path, account_id, sha256, size_bytes)
VALUES (:sender.task_id, 'checkpoint', :sender.attempt_id, '', :sender.account_id, :sha256,
    :size_bytes)

-- name: checkpoint
SELECT items IS NOT NULL AS is_array, EXISTS (
    SELECT FROM task_blobs
    WHERE task_id = :task_id AND role = 'checkpoint' AND sha256 = :sha256) AS is_kept
FROM tasks WHERE id = :task_id

-- name: sender
-- A live attempt of a node, with its task and account.
SELECT task_id, account_id FROM attempts JOIN tasks ON tasks.id = task_id
WHERE attempts.id = :attempt_id AND node_id = :node_id AND attempts.finished_at IS NULL

-- name: lock_task_of_sender
-- A weak lock, before the attempt as everywhere: named files refer to the task.
SELECT 1 FROM tasks WHERE id = (SELECT task_id FROM attempts WHERE id = :attempt_id) FOR KEY SHARE

-- name: lock_sender
-- Keeps it from ending before this transaction does. Not shared: a checkpoint is written to the row
-- later, and two that wait for each other to do so would block each other.
SELECT id FROM attempts
WHERE id = :sender.attempt_id AND node_id = :sender.node_id AND finished_at IS NULL
FOR NO KEY UPDATE

-- name: of_account
SELECT object_key, blobs.size_bytes FROM blob_claims JOIN blobs USING (sha256)
WHERE account_id = :account_id AND sha256 = :sha256

-- name: of_attempt
-- Only blobs that the task of a live attempt names for the node.
SELECT object_key, blobs.size_bytes FROM attempts
JOIN task_blobs USING (task_id) JOIN blobs USING (sha256)
WHERE attempts.id = :attempt_id AND node_id = :node_id AND finished_at IS NULL
    AND sha256 = :sha256 AND role IN ('input', 'checkpoint')
LIMIT 1

-- name: attempt_with_files
-- The newest that left any, or the numbered one.
SELECT attempts.id, number FROM attempts
WHERE task_id = :task_id AND (:number::integer IS NULL OR number = :number)
    AND EXISTS (
        SELECT FROM task_blobs
        WHERE role = 'output' AND attempt_id = attempts.id)
ORDER BY number DESC LIMIT 1

-- name: files
SELECT path, sha256, size_bytes FROM task_blobs
WHERE task_id = :task_id AND role = 'output' AND coalesce(attempt_id, '') = :attempt_id
    AND path > :after_path
ORDER BY path LIMIT :limit

-- name: files_of_all
-- For an array, whose ranges have their own files: of two with the same path, the newer.
SELECT DISTINCT ON (path) path, sha256, size_bytes
FROM task_blobs JOIN attempts ON attempts.id = attempt_id
WHERE task_blobs.task_id = :task_id AND role = 'output' AND path > :after_path
ORDER BY path, number DESC LIMIT :limit

-- name: end
SELECT finished_at, cleared_at IS NOT NULL AS is_cleared
FROM tasks WHERE id = :task_id AND account_id = :account_id
