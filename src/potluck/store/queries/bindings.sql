-- Bindings come before nodes and devices in the order of locks, and several in the order of uuids.

-- name: claim
-- The binding, locked; made for whoever asks if there is none.
INSERT INTO bindings (uuid, account_id) VALUES ($1, $2)
ON CONFLICT (uuid) DO UPDATE SET account_id = bindings.account_id
RETURNING account_id, xmax = 0 AS is_new

-- name: lock
SELECT account_id FROM bindings WHERE uuid = $1 FOR UPDATE

-- name: has_lapsed
-- Whether no node of this wallet that ever showed the device was heard within this time.
SELECT NOT EXISTS (
    SELECT FROM devices JOIN nodes ON nodes.id = node_id
    WHERE uuid = $1 AND account_id = $2 AND heartbeat_at > now() - $3::interval
)

-- name: move
UPDATE bindings SET account_id = $2, bound_at = now() WHERE uuid = $1

-- name: lock_of_node
-- Bindings to the wallet of this node of devices that no other of its nodes shows.
SELECT uuid FROM bindings
WHERE account_id = $2
    AND uuid IN (SELECT uuid FROM devices WHERE node_id = $1)
    AND NOT EXISTS (
        SELECT FROM devices JOIN nodes ON nodes.id = node_id
        WHERE devices.uuid = bindings.uuid AND is_present AND account_id = $2
            AND node_id <> $1 AND state <> 'left'
    )
ORDER BY uuid
FOR UPDATE

-- name: free
DELETE FROM bindings WHERE uuid = ANY($1)

-- name: lock_nodes
-- All that show one of these devices, before any device's row is touched.
SELECT id FROM nodes
WHERE id IN (SELECT node_id FROM devices WHERE uuid = ANY($1) AND is_present) OR id = $2
ORDER BY id
FOR UPDATE

-- name: restand
-- How every node stands to these devices, by the bindings and contests as they are now.
UPDATE devices SET standing = CASE
    WHEN nodes.account_id = bindings.account_id THEN 'bound'
    WHEN nodes.account_id = contests.contender_id THEN 'contested'
    ELSE 'foreign' END
FROM nodes, bindings LEFT JOIN contests USING (uuid)
WHERE devices.uuid = ANY($1) AND nodes.id = devices.node_id AND bindings.uuid = devices.uuid

-- name: contest
INSERT INTO contests (uuid, contender_id, seed, closes_at)
VALUES ($1, $2, $3, clock_timestamp() + $4::interval)

-- name: contest_of
SELECT contests.*, bindings.account_id AS incumbent_id, clock_timestamp() AS now
FROM contests JOIN bindings USING (uuid) WHERE uuid = $1

-- name: answer_as_incumbent
UPDATE contests SET has_incumbent_answered = true WHERE uuid = $1

-- name: answer_as_contender
UPDATE contests SET has_contender_answered = true WHERE uuid = $1

-- name: close_contest
DELETE FROM contests WHERE uuid = $1

-- name: of_node
-- What this node is to be told: devices that are not its own, and contests about those that are.
SELECT devices.uuid, standing, contests.contender_id, contests.seed, contests.closes_at,
    contests.has_incumbent_answered, contests.has_contender_answered,
    bindings.account_id AS incumbent_id, clock_timestamp() AS now
FROM devices
    LEFT JOIN bindings USING (uuid)
    LEFT JOIN contests USING (uuid)
WHERE node_id = $1 AND is_present AND (standing <> 'bound' OR contests.uuid IS NOT NULL)
ORDER BY devices.uuid
