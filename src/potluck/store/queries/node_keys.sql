-- name: lock
-- The delegation in force for a key, whoever's it is.
SELECT id, account_id, expires_at <= now() AS is_over FROM node_keys
WHERE address = $1 AND revoked_at IS NULL
FOR UPDATE

-- name: add
INSERT INTO node_keys
    (id, account_id, address, machine, origin, scopes, nonce, signature, issued_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (address) WHERE revoked_at IS NULL DO NOTHING
RETURNING *, NULL AS node_id

-- name: renew
-- The same wallet signs again: tokens and the node go on.
UPDATE node_keys SET
    machine = $2, origin = $3, nonce = $4, signature = $5, issued_at = $6, expires_at = $7
WHERE id = $1
RETURNING *, (SELECT nodes.id FROM nodes WHERE node_key_id = node_keys.id LIMIT 1) AS node_id

-- name: end
UPDATE node_keys SET revoked_at = now() WHERE id = $1

-- name: by_address
-- The key of this address, and its account, if the wallet's word holds now.
SELECT accounts.*, node_keys.id AS node_key_id
FROM node_keys JOIN accounts ON accounts.id = account_id
WHERE node_keys.address = $1 AND revoked_at IS NULL AND expires_at > now()

-- name: caller
SELECT accounts.*
FROM node_keys JOIN accounts ON accounts.id = account_id
WHERE node_keys.id = $1 AND account_id = $2 AND revoked_at IS NULL AND expires_at > now()

-- name: hold
SELECT id FROM node_keys
WHERE id = $1 AND revoked_at IS NULL AND expires_at > now()
FOR UPDATE

-- name: address
SELECT address FROM node_keys WHERE id = $1

-- name: note_use
-- Once an hour is enough to know, and costs nothing.
UPDATE node_keys SET used_at = now()
WHERE id = $1 AND (used_at IS NULL OR used_at < now() - interval '1 hour')
RETURNING id

-- name: of_account
SELECT node_keys.*,
    (SELECT nodes.id FROM nodes WHERE node_key_id = node_keys.id ORDER BY nodes.id DESC LIMIT 1)
        AS node_id
FROM node_keys
WHERE account_id = $1 AND revoked_at IS NULL AND expires_at > now()
ORDER BY node_keys.id DESC LIMIT 1000

-- name: revoke
UPDATE node_keys SET revoked_at = now()
WHERE id = $1 AND account_id = $2 AND revoked_at IS NULL
RETURNING address
