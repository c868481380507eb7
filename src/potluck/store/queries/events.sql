-- name: append
INSERT INTO events (account_id, task_id, node_id, kind, data)
SELECT account_id, task_id, node_id, kind, data
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::jsonb[])
    WITH ORDINALITY AS event (account_id, task_id, node_id, kind, data, place)
ORDER BY place

-- name: undelivered
SELECT id, account_id, task_id, node_id, kind FROM events
WHERE delivered_at IS NULL ORDER BY id LIMIT $1
FOR UPDATE SKIP LOCKED

-- name: mark_delivered
UPDATE events SET delivered_at = now() WHERE id = ANY($1)
