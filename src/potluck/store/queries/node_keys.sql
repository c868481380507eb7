-- name: lock
-- The active delegation of a key, of any account.
SELECT id, account_id, expires_at <= now() AS is_over FROM node_keys
WHERE address = :address AND revoked_at IS NULL
FOR UPDATE

-- name: add
INSERT INTO node_keys
    (id, account_id, address, machine, origin, scopes, nonce, signature, issued_at, expires_at)
VALUES (:node_key_id, :account_id, :delegation.key, :machine, :delegation.origin,
    :delegation.scopes, :delegation.nonce, :delegation.signature, :issued_at, :expires_at)
ON CONFLICT (address) WHERE revoked_at IS NULL DO NOTHING
RETURNING *, NULL AS node_id

-- name: renew
-- The same wallet signs again: tokens and the node stay valid.
UPDATE node_keys SET
    machine = :machine, origin = :delegation.origin, nonce = :delegation.nonce,
    signature = :delegation.signature, issued_at = :issued_at, expires_at = :expires_at
WHERE id = :node_key_id
RETURNING *, (SELECT nodes.id FROM nodes WHERE node_key_id = node_keys.id LIMIT 1) AS node_id

-- name: end
UPDATE node_keys SET revoked_at = now() WHERE id = :node_key_id

-- name: by_address
-- The key with this address, and its account, if the delegation is active.
SELECT accounts.*, node_keys.id AS node_key_id
FROM node_keys JOIN accounts ON accounts.id = account_id
WHERE node_keys.address = :address AND revoked_at IS NULL AND expires_at > now()

-- name: caller
-- The row's version tells whether the account has changed since.
SELECT accounts.*, accounts.xmin::text AS row_version
FROM node_keys JOIN accounts ON accounts.id = account_id
WHERE node_keys.id = :node_key_id AND account_id = :account_id AND revoked_at IS NULL
    AND expires_at > now()

-- name: changed_callers
-- Of callers that were read before: those that would not be read the same now. Few or none.
SELECT kept.node_key_id
FROM unnest(:node_key_ids::text[], :account_ids::text[], :row_versions::text[])
    AS kept (node_key_id, account_id, row_version)
WHERE NOT EXISTS (
    SELECT FROM node_keys JOIN accounts ON accounts.id = node_keys.account_id
    WHERE node_keys.id = kept.node_key_id AND accounts.id = kept.account_id
        AND accounts.xmin::text = kept.row_version
        AND revoked_at IS NULL AND expires_at > now())

-- name: hold
SELECT id FROM node_keys
WHERE id = :node_key_id AND revoked_at IS NULL AND expires_at > now()
FOR UPDATE

-- name: address
SELECT address FROM node_keys WHERE id = :node_key_id

-- name: note_use
-- At most once an hour, to save writes.
UPDATE node_keys SET used_at = now()
WHERE id = :node_key_id AND (used_at IS NULL OR used_at < now() - interval '1 hour')
RETURNING id

-- name: of_account
SELECT node_keys.*,
    (SELECT nodes.id FROM nodes WHERE node_key_id = node_keys.id ORDER BY nodes.id DESC LIMIT 1)
        AS node_id
FROM node_keys
WHERE account_id = :account_id AND revoked_at IS NULL AND expires_at > now()
    AND (:behind::text IS NULL OR node_keys.id < :behind)
ORDER BY node_keys.id DESC LIMIT :limit

-- name: revoke
UPDATE node_keys SET revoked_at = now()
WHERE id = :node_key_id AND account_id = :account_id AND revoked_at IS NULL
RETURNING address
