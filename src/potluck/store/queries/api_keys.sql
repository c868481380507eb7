-- name: add
INSERT INTO api_keys (id, account_id, name, scopes, hash, expires_at)
VALUES (:key_id, :account_id, :name, :scopes, :key_hash, now() + :lifetime::interval)
RETURNING *

-- name: by_hash
SELECT * FROM api_keys WHERE hash = :key_hash AND revoked_at IS NULL AND expires_at > now()

-- name: caller
SELECT accounts.*, api_keys.id AS key_id, scopes,
    used_at IS NULL OR used_at < now() - interval '1 hour' AS is_noteworthy
FROM api_keys JOIN accounts ON accounts.id = account_id
WHERE hash = :key_hash AND revoked_at IS NULL AND expires_at > now()

-- name: note_use
-- At most once an hour, to save writes.
UPDATE api_keys SET used_at = now()
WHERE id = :key_id AND (used_at IS NULL OR used_at < now() - interval '1 hour')
RETURNING id

-- name: of_account
SELECT * FROM api_keys
WHERE account_id = :account_id AND revoked_at IS NULL AND expires_at > now()
    AND (:behind::text IS NULL OR id < :behind)
ORDER BY id DESC LIMIT :limit

-- name: lock_account
-- A separate statement: the next one sees what was committed while this one waited.
SELECT 1 FROM accounts WHERE id = :account_id FOR NO KEY UPDATE

-- name: count
SELECT count(*) FROM api_keys
WHERE account_id = :account_id AND revoked_at IS NULL AND expires_at > now()

-- name: revoke_all
UPDATE api_keys SET revoked_at = now()
WHERE account_id = :account_id AND revoked_at IS NULL AND expires_at > now()
RETURNING id

-- name: revoke
UPDATE api_keys SET revoked_at = now()
WHERE id = :key_id AND account_id = :account_id AND revoked_at IS NULL
RETURNING id
