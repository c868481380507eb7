-- name: insert
INSERT INTO nodes (id, account_id, node_key_id, name, state, own_tasks_only, description, cores,
    memory_bytes, disk_bytes)
VALUES ($1, $2, $3, $4, 'online', $5, $6, $7, $8, $9)

-- name: known
-- A key that was revoked and authorised again is the same key under another id.
SELECT nodes.id FROM nodes LEFT JOIN node_keys AS registrar ON registrar.id = node_key_id
WHERE nodes.account_id = $1 AND (
    nodes.id = $3 AND node_key_id IS NOT DISTINCT FROM $2
    OR registrar.address = (SELECT address FROM node_keys WHERE id = $2))
LIMIT 1

-- name: of_key
SELECT id FROM nodes WHERE node_key_id = $1 AND state <> 'left'

-- name: count_others
SELECT count(*) FROM nodes
WHERE account_id = $1 AND id IS DISTINCT FROM $2 AND state <> 'left'

-- name: update
-- Tells what it had been, so that its return can be told.
WITH before AS (
    SELECT id, state FROM nodes WHERE id = $1 AND account_id = $2 FOR UPDATE
)
UPDATE nodes SET
    node_key_id = $3, name = $4, state = 'online', own_tasks_only = $5, description = $6,
    cores = $7, memory_bytes = $8, disk_bytes = $9, heartbeat_at = now(),
    -- One that was away says what it still holds when it asks for work, and has that back first:
    -- else it would be given its own anew.
    is_polling = is_polling AND before.state = 'online'
FROM before WHERE nodes.id = before.id
RETURNING before.state

-- name: forget_devices
UPDATE devices SET is_present = false WHERE node_id = $1

-- name: offer_device
INSERT INTO devices (id, node_id, uuid, position, kind, description, model, memory_bytes,
    price_micro_per_hour)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (node_id, uuid) DO UPDATE SET
    position = excluded.position, kind = excluded.kind, description = excluded.description,
    model = excluded.model, memory_bytes = excluded.memory_bytes,
    price_micro_per_hour = excluded.price_micro_per_hour, is_present = true
RETURNING id

-- name: hear
-- A sign of life. Whether a silent one is back is for `come_back` to say. One that was heard a moment
-- ago is not written down again: that would cost a commit for each call.
WITH node AS (
    SELECT id, state, heartbeat_at FROM nodes
    WHERE id = $1 AND account_id = $2 AND node_key_id IS NOT DISTINCT FROM $3 AND state <> 'left'
), heard AS (
    UPDATE nodes SET heartbeat_at = now() FROM node
    WHERE nodes.id = node.id AND node.heartbeat_at <= now() - $4::interval
)
SELECT state FROM node

-- name: come_back
-- Tells whether it had been silent, so that its return can be told.
WITH before AS (
    SELECT id, state FROM nodes
    WHERE id = $1 AND account_id = $2 AND node_key_id IS NOT DISTINCT FROM $3 AND state <> 'left'
    FOR UPDATE
)
UPDATE nodes SET state = 'online', heartbeat_at = now()
FROM before WHERE nodes.id = before.id
RETURNING before.state AS state_before

-- name: leave
WITH before AS (
    SELECT id, state FROM nodes
    WHERE id = $1 AND account_id = $2 AND node_key_id IS NOT DISTINCT FROM $3
    FOR UPDATE
)
UPDATE nodes SET state = 'left'
FROM before WHERE nodes.id = before.id
RETURNING before.state <> 'left' AS is_news

-- name: fall_silent
-- Not while their silence is forgiven.
WITH quiet AS (
    SELECT nodes.id FROM nodes, leader
    WHERE state = 'online' AND heartbeat_at <= now() - $1::interval
        AND (forgiven_until IS NULL OR forgiven_until <= now() OR heartbeat_at > forgiven_beat_at)
    ORDER BY nodes.id FOR UPDATE OF nodes
)
UPDATE nodes SET state = 'silent' FROM quiet WHERE nodes.id = quiet.id
RETURNING nodes.id, account_id

-- name: lock_own
SELECT id, name FROM nodes WHERE id = $1 AND account_id = $2 AND ($3 OR state <> 'left') FOR UPDATE

-- name: get
SELECT * FROM nodes WHERE id = $1 AND ($2 OR state <> 'left')

-- name: page
SELECT * FROM nodes WHERE state <> 'left' AND id > $1 ORDER BY id LIMIT $2

-- name: devices
SELECT * FROM devices WHERE is_present AND node_id = ANY($1) ORDER BY node_id, position
