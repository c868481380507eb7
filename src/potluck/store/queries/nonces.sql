-- name: use
INSERT INTO used_nonces (nonce, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING nonce

-- name: forget
WITH gone AS (
    DELETE FROM used_nonces WHERE nonce IN (
        SELECT nonce FROM used_nonces
        WHERE expires_at < now() - $1::interval ORDER BY expires_at LIMIT $2
    ) RETURNING nonce
)
SELECT count(*) FROM gone
