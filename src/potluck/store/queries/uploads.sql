-- name: begin
-- One that is under way goes on. Its row of `blob_use` is locked, so nobody else has the room.
INSERT INTO uploads (id, account_id, attempt_id, sha256, size_bytes, part_bytes)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (account_id, coalesce(attempt_id, ''), sha256) DO UPDATE SET used_at = now()
RETURNING *, false AS is_finished, false AS is_wrong

-- name: under_way
SELECT *, false AS is_finished, false AS is_wrong FROM uploads
WHERE account_id = $1 AND attempt_id IS NOT DISTINCT FROM $2 AND sha256 = $3

-- name: of_account
SELECT id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done,
    false AS is_finished, false AS is_wrong
FROM uploads WHERE id = $1 AND account_id = $2 AND attempt_id IS NULL
UNION ALL
SELECT id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done, true, is_wrong
FROM finished_uploads WHERE id = $1 AND account_id = $2 AND attempt_id IS NULL

-- name: of_node
-- As long as the attempt is live, and where it is.
SELECT upload.* FROM (
    SELECT id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done,
        false AS is_finished, false AS is_wrong FROM uploads
    UNION ALL
    SELECT id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done, true, is_wrong
    FROM finished_uploads) AS upload
JOIN attempts ON attempts.id = attempt_id
WHERE upload.id = $1 AND node_id = $2 AND finished_at IS NULL

-- name: count_part
-- Nothing if somebody else has counted it.
UPDATE uploads SET parts_done = parts_done + 1, used_at = now()
WHERE id = $1 AND parts_done = $2
RETURNING *, false AS is_finished, false AS is_wrong

-- name: finish
WITH done AS (DELETE FROM uploads WHERE id = $1 RETURNING *)
INSERT INTO finished_uploads
    (id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done, is_wrong)
SELECT id, account_id, attempt_id, sha256, size_bytes, part_bytes, parts_done, $2 FROM done
RETURNING id

-- name: give_up
DELETE FROM uploads WHERE id = $1

-- name: idle
-- One account after the other: what an account uses is locked before its uploads.
SELECT id, account_id FROM uploads WHERE used_at < now() - $1::interval ORDER BY used_at LIMIT $2

-- name: drop_idle
DELETE FROM uploads WHERE id = $1 AND used_at < now() - $2::interval RETURNING id

-- name: known
SELECT id FROM uploads WHERE id = ANY($1::text[])

-- name: forget_finished
DELETE FROM finished_uploads WHERE finished_at < now() - $1::interval
