-- name: begin
-- Continues an upload in progress. The row of `blob_use` is locked, so no other takes the room.
INSERT INTO uploads (id, account_id, attempt_id, sha256, size_bytes, part_bytes)
VALUES (:upload_id, :account_id, :attempt_id, :sha256, :size_bytes, :part_bytes)
ON CONFLICT (account_id, coalesce(attempt_id, ''), sha256) DO UPDATE SET used_at = now()
RETURNING *, false AS is_finished, false AS is_wrong

-- name: under_way
SELECT *, false AS is_finished, false AS is_wrong FROM uploads
WHERE account_id = :account_id AND attempt_id IS NOT DISTINCT FROM :attempt_id AND sha256 = :sha256

-- name: of_account
SELECT id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done,
    false AS is_finished, false AS is_wrong
FROM uploads WHERE id = :upload_id AND account_id = :account_id AND attempt_id IS NULL
UNION ALL
SELECT id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done, true, is_wrong
FROM finished_uploads WHERE id = :upload_id AND account_id = :account_id AND attempt_id IS NULL

-- name: of_node
-- While the attempt is live, and only on its node.
SELECT upload.* FROM (
    SELECT id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done,
        false AS is_finished, false AS is_wrong FROM uploads
    UNION ALL
    SELECT id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done, true, is_wrong
    FROM finished_uploads) AS upload
JOIN attempts ON attempts.id = attempt_id
WHERE upload.id = :upload_id AND node_id = :node_id AND finished_at IS NULL

-- name: count_part
-- No row if it was counted already.
UPDATE uploads SET parts_done = parts_done + 1, used_at = now()
WHERE id = :upload_id AND parts_done = :number
RETURNING *, false AS is_finished, false AS is_wrong

-- name: finish
WITH done AS (DELETE FROM uploads WHERE id = :upload_id RETURNING *)
INSERT INTO finished_uploads
    (id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done, is_wrong)
SELECT id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done, :is_wrong FROM done
RETURNING id

-- name: finished
SELECT *, true AS is_finished FROM finished_uploads WHERE id = :upload_id

-- name: give_up
DELETE FROM uploads WHERE id = :upload_id

-- name: idle
-- One account after the other: an account's use is locked before its uploads.
SELECT id, account_id FROM uploads
WHERE used_at < now() - :older_than::interval ORDER BY used_at LIMIT :limit

-- name: drop_idle
DELETE FROM uploads WHERE id = :upload_id AND used_at < now() - :older_than::interval RETURNING id

-- name: known
SELECT id FROM uploads WHERE id = ANY(:upload_ids::text[])

-- name: forget_finished
DELETE FROM finished_uploads WHERE finished_at < now() - :older_than::interval
