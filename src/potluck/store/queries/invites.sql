-- name: add
INSERT INTO invites (id, hash, roles, credit_micro, uses_left, made_by, note, expires_at)
VALUES (:invite_id, :code_hash, :roles, :credit_micro, :uses, :made_by, :note,
    now() + :lifetime::interval)
RETURNING *

-- name: by_hash
SELECT * FROM invites WHERE hash = :code_hash AND revoked_at IS NULL AND expires_at > now()

-- name: redeem
UPDATE invites SET uses_left = uses_left - 1
WHERE hash = :code_hash AND uses_left > 0 AND revoked_at IS NULL AND expires_at > now()
    AND made_by IS NOT NULL
RETURNING *

-- name: redeem_first
-- The server's own invite for its first admin; invalid once there is one.
UPDATE invites SET uses_left = uses_left - 1
WHERE hash = :code_hash AND uses_left > 0 AND revoked_at IS NULL AND expires_at > now()
    AND made_by IS NULL
    AND NOT EXISTS (SELECT FROM accounts WHERE 'admin' = ANY (roles) AND suspended_at IS NULL)
RETURNING *

-- name: open
SELECT * FROM invites
WHERE uses_left > 0 AND revoked_at IS NULL AND expires_at > now() AND made_by IS NOT NULL
    AND (:behind::text IS NULL OR id < :behind)
ORDER BY id DESC LIMIT :limit

-- name: revoke
UPDATE invites SET revoked_at = now()
WHERE id = :invite_id AND revoked_at IS NULL AND made_by IS NOT NULL
RETURNING id

-- name: revoke_first
-- The server's own invites for a first admin, once there is one.
UPDATE invites SET revoked_at = now() WHERE made_by IS NULL AND revoked_at IS NULL

-- name: offer_first
INSERT INTO invites (id, hash, roles, credit_micro, uses_left, expires_at)
VALUES (:invite_id, :code_hash, :roles, 0, 1, now() + :lifetime::interval)
ON CONFLICT (hash) DO UPDATE SET revoked_at = NULL, expires_at = excluded.expires_at
