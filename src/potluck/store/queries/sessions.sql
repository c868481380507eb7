-- name: open
INSERT INTO sessions (id, account_id, machine, expires_at, is_browser)
VALUES (:session_id, :account_id, :machine, now() + :lifetime::interval, :is_browser)

-- name: add_refresh
INSERT INTO refresh_tokens (hash, session_id) VALUES (:refresh_hash, :session_id)

-- name: caller
-- The account of an open session.
SELECT accounts.*
FROM sessions JOIN accounts ON accounts.id = account_id
WHERE sessions.id = :session_id AND account_id = :account_id AND revoked_at IS NULL
    AND expires_at > now()

-- name: use_refresh
-- Locks the session, so that of two concurrent uses of one token the second finds it used.
SELECT accounts.*, sessions.id AS session_id
FROM sessions JOIN accounts ON accounts.id = account_id
WHERE sessions.id = (SELECT session_id FROM refresh_tokens WHERE hash = :refresh_hash)
    AND is_browser = :is_browser AND revoked_at IS NULL AND expires_at > now()
FOR UPDATE OF sessions

-- name: mark_refresh
UPDATE refresh_tokens SET used_at = now()
WHERE hash = :refresh_hash AND used_at IS NULL RETURNING session_id

-- name: is_just_used
-- Whether the token was used a moment ago, and its successor is still the newest of the session.
SELECT EXISTS (
    SELECT FROM refresh_tokens AS used JOIN refresh_tokens AS newest USING (session_id)
    WHERE used.hash = :refresh_hash AND used.used_at > now() - :grace::interval
        AND newest.hash = :next_hash AND newest.used_at IS NULL
)

-- name: prolong
UPDATE sessions SET used_at = now(), expires_at = now() + :lifetime::interval WHERE id = :session_id

-- name: revoke
UPDATE sessions SET revoked_at = now()
WHERE id = :session_id AND account_id = :account_id AND revoked_at IS NULL
RETURNING id

-- name: of_account
SELECT * FROM sessions
WHERE account_id = :account_id AND revoked_at IS NULL AND expires_at > now()
    AND (:behind::text IS NULL OR id < :behind)
ORDER BY id DESC LIMIT :limit

-- name: forget
-- Sessions that ended a while ago; the audit log keeps the history.
WITH gone AS (
    DELETE FROM sessions WHERE id IN (
        SELECT id FROM sessions
        WHERE expires_at < now() - :older_than::interval ORDER BY expires_at LIMIT :limit
    ) RETURNING id
)
SELECT count(*) FROM gone
