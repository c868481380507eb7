-- name: append
INSERT INTO events (account_id, task_id, node_id, kind, data) VALUES ($1, $2, $3, $4, $5)

-- name: undelivered
SELECT id, account_id, task_id, node_id, kind FROM events
WHERE delivered_at IS NULL ORDER BY id LIMIT $1
FOR UPDATE SKIP LOCKED

-- name: mark_delivered
UPDATE events SET delivered_at = now() WHERE id = ANY($1)
