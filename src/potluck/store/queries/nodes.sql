-- name: insert
INSERT INTO nodes (id, account_id, node_key_id, name, state, own_tasks_only, description, cores,
    memory_bytes, disk_bytes)
VALUES (:node_id, :owner.account_id, :owner.node_key_id, :description.name, 'online',
    :own_tasks_only, :description, :description.cores, :description.memory_bytes,
    :description.disk_bytes)

-- name: known
-- A key that was revoked and authorised again is the same key under another id.
SELECT nodes.id FROM nodes LEFT JOIN node_keys AS registrar ON registrar.id = node_key_id
WHERE nodes.account_id = :owner.account_id AND (
    nodes.id = :node_id AND node_key_id IS NOT DISTINCT FROM :owner.node_key_id
    OR registrar.address = (SELECT address FROM node_keys WHERE id = :owner.node_key_id))
LIMIT 1

-- name: of_key
SELECT id FROM nodes WHERE node_key_id = :node_key_id AND state <> 'left'

-- name: count_others
SELECT count(*) FROM nodes
WHERE account_id = :owner.account_id AND id IS DISTINCT FROM :node_id AND state <> 'left'

-- name: update
-- Returns the previous state, so that its return can be announced.
WITH before AS (
    SELECT id, state FROM nodes WHERE id = :node_id AND account_id = :owner.account_id FOR UPDATE
)
UPDATE nodes SET
    node_key_id = :owner.node_key_id, name = :description.name, state = 'online',
    own_tasks_only = :own_tasks_only, description = :description,
    cores = :description.cores, memory_bytes = :description.memory_bytes,
    disk_bytes = :description.disk_bytes, heartbeat_at = now(),
    -- A node that was away lists what it holds in its next poll, and gets that back first:
    -- otherwise it would be assigned its own work again.
    is_polling = is_polling AND before.state = 'online'
FROM before WHERE nodes.id = before.id
RETURNING before.state

-- name: forget_devices
UPDATE devices SET is_present = false WHERE node_id = :node_id

-- name: offer_device
INSERT INTO devices (id, node_id, uuid, position, kind, description, model, memory_bytes,
    price_micro_per_hour)
VALUES (:device_id, :node_id, :device.uuid, :position, :device.kind, :device, :device.model,
    :device.offered_bytes, :device.terms.price_micro_per_hour)
ON CONFLICT (node_id, uuid) DO UPDATE SET
    position = excluded.position, kind = excluded.kind, description = excluded.description,
    model = excluded.model, memory_bytes = excluded.memory_bytes,
    price_micro_per_hour = excluded.price_micro_per_hour, is_present = true
RETURNING id

-- name: hear
-- Marks the node as seen; only `come_back` ends a silence. A recent mark is not repeated: that
-- would cost a commit per call.
WITH node AS (
    SELECT id, state, heartbeat_at FROM nodes
    WHERE id = :node_id AND account_id = :owner.account_id
        AND node_key_id IS NOT DISTINCT FROM :owner.node_key_id AND state <> 'left'
), heard AS (
    UPDATE nodes SET heartbeat_at = now() FROM node
    WHERE nodes.id = node.id AND node.heartbeat_at <= now() - :min_heartbeat_age::interval
)
SELECT state FROM node

-- name: come_back
-- Returns whether it had been silent, so that its return can be announced.
WITH before AS (
    SELECT id, state FROM nodes
    WHERE id = :node_id AND account_id = :owner.account_id
        AND node_key_id IS NOT DISTINCT FROM :owner.node_key_id AND state <> 'left'
    FOR UPDATE
)
UPDATE nodes SET state = 'online', heartbeat_at = now()
FROM before WHERE nodes.id = before.id
RETURNING before.state AS state_before

-- name: stop_polling
-- Its next poll lets it get work again.
UPDATE nodes SET is_polling = false
WHERE id = :node_id AND account_id = :owner.account_id
    AND node_key_id IS NOT DISTINCT FROM :owner.node_key_id AND is_polling

-- name: leave
WITH before AS (
    SELECT id, state FROM nodes
    WHERE id = :node_id AND account_id = :owner.account_id
        AND node_key_id IS NOT DISTINCT FROM :owner.node_key_id
    FOR UPDATE
)
UPDATE nodes SET state = 'left'
FROM before WHERE nodes.id = before.id
RETURNING before.state <> 'left' AS is_news

-- name: fall_silent
-- Not during a grace period.
WITH quiet AS (
    SELECT nodes.id FROM nodes, leader
    WHERE state = 'online' AND heartbeat_at <= now() - :silent_after::interval
        AND (forgiven_until IS NULL OR forgiven_until <= now() OR heartbeat_at > forgiven_beat_at)
    ORDER BY nodes.id FOR UPDATE OF nodes
)
UPDATE nodes SET state = 'silent' FROM quiet WHERE nodes.id = quiet.id
RETURNING nodes.id, account_id

-- name: silence_all
-- In a restored database: until a node is heard of again, it is unknown whether it still exists.
UPDATE nodes SET state = 'silent' WHERE state = 'online'

-- name: cordon
-- The first time stays.
UPDATE nodes SET cordoned_at = coalesce(cordoned_at, now()), cordoned_for = :reason
WHERE id = :node_id AND state <> 'left' RETURNING id

-- name: uncordon
UPDATE nodes SET cordoned_at = NULL, cordoned_for = ''
WHERE id = :node_id AND state <> 'left' RETURNING id

-- name: lock
SELECT account_id, node_key_id, state FROM nodes WHERE id = :node_id AND state <> 'left' FOR UPDATE

-- name: lock_own
SELECT id, name FROM nodes
WHERE id = :node_id AND account_id = :account_id AND (:include_left OR state <> 'left') FOR UPDATE

-- name: get
SELECT * FROM nodes WHERE id = :node_id AND (:include_left OR state <> 'left')

-- name: page
-- Ends early with the node that completes a number of devices: those are what a page costs.
WITH next_nodes AS (
    SELECT *, coalesce(sum(jsonb_array_length(description -> 'devices')) OVER (
        ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS devices_before
    FROM nodes WHERE state <> 'left' AND id > :after_id ORDER BY id LIMIT :limit
)
SELECT * FROM next_nodes WHERE devices_before < :max_devices::integer ORDER BY id

-- name: own_page
-- The same for the nodes of one account, by their own index.
WITH next_nodes AS (
    SELECT *, coalesce(sum(jsonb_array_length(description -> 'devices')) OVER (
        ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS devices_before
    FROM nodes WHERE account_id = :account_id AND state <> 'left' AND id > :after_id
    ORDER BY id LIMIT :limit
)
SELECT * FROM next_nodes WHERE devices_before < :max_devices::integer ORDER BY id

-- name: devices
SELECT * FROM devices WHERE is_present AND node_id = ANY(:node_ids) ORDER BY node_id, position
