-- name: use
INSERT INTO used_nonces (nonce, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING nonce

-- name: forget
DELETE FROM used_nonces WHERE nonce IN (
    SELECT nonce FROM used_nonces WHERE expires_at < now() - $1::interval LIMIT 1000
)
