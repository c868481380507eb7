-- name: add
INSERT INTO api_keys (id, account_id, name, scopes, hash, expires_at)
VALUES ($1, $2, $3, $4, $5, now() + $6::interval)
RETURNING *

-- name: by_hash
SELECT * FROM api_keys WHERE hash = $1 AND revoked_at IS NULL AND expires_at > now()

-- name: caller
SELECT accounts.*, api_keys.id AS key_id, scopes,
    used_at IS NULL OR used_at < now() - interval '1 hour' AS is_noteworthy
FROM api_keys JOIN accounts ON accounts.id = account_id
WHERE hash = $1 AND revoked_at IS NULL AND expires_at > now()

-- name: note_use
-- Once an hour is enough to know, and costs nothing.
UPDATE api_keys SET used_at = now()
WHERE id = $1 AND (used_at IS NULL OR used_at < now() - interval '1 hour')
RETURNING id

-- name: of_account
SELECT * FROM api_keys
WHERE account_id = $1 AND revoked_at IS NULL AND expires_at > now()
ORDER BY id DESC LIMIT 1000

-- name: revoke
UPDATE api_keys SET revoked_at = now()
WHERE id = $1 AND account_id = $2 AND revoked_at IS NULL
RETURNING id
