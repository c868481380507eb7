-- name: add
INSERT INTO terminal_approvals (code_hash, address, machine, expires_at)
VALUES (:code_hash, :approval.address, :approval.machine, :expires_at)
ON CONFLICT DO NOTHING
RETURNING code_hash

-- name: use
-- The row's lock lets the first of several callers through; the others find it used.
UPDATE terminal_approvals SET used_at = now()
WHERE code_hash = :code_hash AND used_at IS NULL AND expires_at > now()
RETURNING address, machine

-- name: forget
WITH gone AS (
    DELETE FROM terminal_approvals WHERE code_hash IN (
        SELECT code_hash FROM terminal_approvals
        WHERE expires_at < now() - :older_than::interval ORDER BY expires_at LIMIT :limit
    ) RETURNING code_hash
)
SELECT count(*) FROM gone
