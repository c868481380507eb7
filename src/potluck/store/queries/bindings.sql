-- Bindings come before nodes and devices in the lock order, and several in the order of uuids.

-- name: claim
-- The binding, locked; created for the caller if there is none.
INSERT INTO bindings (uuid, account_id) VALUES (:uuid, :account_id)
ON CONFLICT (uuid) DO UPDATE SET account_id = bindings.account_id
RETURNING account_id, xmax = 0 AS is_new,
    EXISTS (SELECT FROM contests WHERE contests.uuid = bindings.uuid) AS is_contested

-- name: lock
SELECT account_id FROM bindings WHERE uuid = :uuid FOR UPDATE

-- name: has_lapsed
-- Whether no node of this wallet that ever showed the device was seen within this time.
SELECT NOT EXISTS (
    SELECT FROM devices JOIN nodes ON nodes.id = node_id
    WHERE uuid = :binding.uuid AND account_id = :binding.account_id
        AND heartbeat_at > now() - :lapse_after::interval
)

-- name: move
UPDATE bindings SET account_id = :account_id, node_id = NULL, bound_at = now() WHERE uuid = :uuid

-- name: lock_of_node
-- Bindings to this node's wallet of devices that no other of its nodes shows.
SELECT uuid FROM bindings
WHERE account_id = :account_id
    AND uuid IN (SELECT uuid FROM devices WHERE node_id = :node_id)
    AND NOT EXISTS (
        SELECT FROM devices JOIN nodes ON nodes.id = node_id
        WHERE devices.uuid = bindings.uuid AND is_present AND account_id = :account_id
            AND node_id <> :node_id AND state <> 'left'
    )
ORDER BY uuid
FOR UPDATE

-- name: free
DELETE FROM bindings WHERE uuid = ANY(:uuids)

-- name: lock_nodes
-- All nodes that show one of these devices, before any device row is touched.
SELECT id FROM nodes
WHERE id IN (SELECT node_id FROM devices WHERE uuid = ANY(:uuids) AND is_present) OR id = :node_id
ORDER BY id
FOR UPDATE

-- name: rehold
-- Which node of its wallet offers each device: the current one, while it is online or uses the
-- device; else one that is online.
UPDATE bindings SET node_id = (
    SELECT nodes.id FROM devices JOIN nodes ON nodes.id = devices.node_id
    WHERE devices.uuid = bindings.uuid AND is_present
        AND nodes.account_id = bindings.account_id AND state <> 'left'
    ORDER BY (state = 'online' OR free_milli < 1000) DESC,
        (nodes.id IS NOT DISTINCT FROM bindings.node_id) DESC, nodes.id
    LIMIT 1
)
WHERE uuid = ANY(:uuids)

-- name: restand
-- The standing of every node for these devices, from the current bindings and contests. A processor
-- is shared by the providers of a machine, each with the cores that its owner chose.
UPDATE devices SET standing = CASE
    WHEN nodes.account_id = bindings.account_id AND (kind = 'cpu' OR nodes.id = bindings.node_id)
        THEN 'bound'
    WHEN nodes.account_id = bindings.account_id THEN 'elsewhere'
    WHEN nodes.account_id = contests.contender_id THEN 'contested'
    ELSE 'foreign' END
FROM nodes, bindings LEFT JOIN contests USING (uuid)
WHERE devices.uuid = ANY(:uuids) AND is_present
    AND nodes.id = devices.node_id AND bindings.uuid = devices.uuid

-- name: contest
-- While a node of the incumbent shows the device and does not know of the contest, it may be away
-- longer.
INSERT INTO contests (uuid, contender_id, seed, contender_by, incumbent_by)
SELECT :uuid, :contender_id, :seed, clock_timestamp() + :answer_within::interval,
    clock_timestamp() + CASE WHEN EXISTS (
        SELECT FROM devices JOIN nodes ON nodes.id = node_id
        WHERE devices.uuid = bindings.uuid AND is_present
            AND nodes.account_id = bindings.account_id AND state <> 'left'
    ) THEN :answer_within_if_away::interval ELSE :answer_within::interval END
FROM bindings WHERE uuid = :uuid

-- name: hurry_incumbent
UPDATE contests SET incumbent_by = least(incumbent_by, clock_timestamp() + :answer_within::interval)
WHERE uuid = :uuid

-- name: prolong_contests
-- After a gap without answers. The bindings are locked first, as everywhere.
WITH contested AS (
    SELECT uuid FROM bindings WHERE uuid IN (SELECT uuid FROM contests) ORDER BY uuid FOR UPDATE
)
UPDATE contests SET
    incumbent_by = greatest(incumbent_by, clock_timestamp() + :answer_within::interval),
    contender_by = greatest(contender_by, clock_timestamp() + :answer_within::interval)
FROM contested WHERE contests.uuid = contested.uuid

-- name: contest_of
-- Its time stops while no instance leads: the next leader forgives the gap first.
SELECT contests.*, bindings.account_id AS incumbent_id,
    least(clock_timestamp(), (SELECT expires_at FROM leader)) AS now
FROM contests JOIN bindings USING (uuid) WHERE uuid = :uuid

-- name: answer_as_incumbent
UPDATE contests SET incumbent_was_right = :is_right WHERE uuid = :uuid

-- name: answer_as_contender
UPDATE contests SET contender_was_right = :is_right WHERE uuid = :uuid

-- name: close_contest
DELETE FROM contests WHERE uuid = :uuid

-- name: lose_contest
INSERT INTO lost_contests (uuid, contender_id, lost_at)
VALUES (:uuid, :contender_id, clock_timestamp())
ON CONFLICT (uuid, contender_id) DO UPDATE SET lost_at = excluded.lost_at

-- name: forget_lost_contests
DELETE FROM lost_contests
WHERE uuid = :uuid AND lost_at <= clock_timestamp() - :older_than::interval

-- name: has_lost
SELECT EXISTS (SELECT FROM lost_contests WHERE uuid = :uuid AND contender_id = :contender_id)

-- name: of_node
-- What this node must be told: devices that are not its own, and contests about its own.
SELECT devices.uuid, standing, contests.contender_id, contests.seed,
    contests.incumbent_by, contests.contender_by,
    contests.incumbent_was_right, contests.contender_was_right,
    bindings.account_id AS incumbent_id,
    least(clock_timestamp(), (SELECT expires_at FROM leader)) AS now,
    CASE
        WHEN bindings.uuid IS NULL THEN true
        WHEN standing = 'elsewhere' THEN NOT EXISTS (
            SELECT FROM devices AS held JOIN nodes AS holder ON holder.id = held.node_id
            WHERE held.node_id = bindings.node_id AND held.uuid = bindings.uuid AND held.is_present
                AND (state = 'online' OR state = 'silent' AND held.free_milli < 1000))
        WHEN standing = 'foreign' THEN NOT EXISTS (
            SELECT FROM devices AS held JOIN nodes AS holder ON holder.id = held.node_id
            WHERE held.uuid = bindings.uuid AND holder.account_id = bindings.account_id
                AND holder.heartbeat_at > now() - :lapse_after::interval)
        ELSE false
    END AS is_free
FROM devices
    LEFT JOIN bindings USING (uuid)
    LEFT JOIN contests USING (uuid)
WHERE devices.node_id = :node_id AND is_present
    AND (standing <> 'bound' OR contests.uuid IS NOT NULL)
ORDER BY devices.uuid
