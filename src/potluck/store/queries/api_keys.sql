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
ORDER BY id DESC LIMIT 1000

-- name: revoke
UPDATE api_keys SET revoked_at = now()
WHERE id = :key_id AND account_id = :account_id AND revoked_at IS NULL
RETURNING id
