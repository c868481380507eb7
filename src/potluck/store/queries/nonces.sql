-- name: use
INSERT INTO used_nonces (nonce, expires_at) VALUES (:nonce, :expires_at)
ON CONFLICT DO NOTHING RETURNING nonce

-- name: forget
WITH gone AS (
    DELETE FROM used_nonces WHERE nonce IN (
        SELECT nonce FROM used_nonces
        WHERE expires_at < now() - :older_than::interval ORDER BY expires_at LIMIT :limit
    ) RETURNING nonce
)
SELECT count(*) FROM gone
