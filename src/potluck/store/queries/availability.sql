-- Whether devices take new work. The node's row is locked before its devices, as everywhere.

-- name: lock_node
-- In a statement before `tell`: whatever was just wished for is seen there only if it was waited for
-- here.
SELECT id FROM nodes WHERE id = :node_id FOR UPDATE

-- name: tell
-- What a node says of its devices. Before it has heard all that its owner asked for it may take one
-- away and not give one: it must not undo a pause that it has not heard of, also by a word that was
-- long on its way. Only what differs is written, since the leader reads every row that was.
WITH told AS (
    SELECT devices.id, devices.availability AS before, said.availability, said.why
    FROM unnest(:statuses[].uuid::text[], :statuses[].availability::text[], :statuses[].why::text[])
        AS said (uuid, availability, why)
        JOIN devices USING (uuid) JOIN nodes ON nodes.id = node_id
    WHERE devices.node_id = :node_id AND is_present
        AND (devices.availability, devices.why) <> (said.availability, said.why)
        AND (said.availability <> 'available' OR last_wish <= :last_wish)
    ORDER BY devices.id
    FOR UPDATE OF devices
)
UPDATE devices SET availability = told.availability, why = told.why
FROM told WHERE devices.id = told.id
RETURNING devices.id, devices.uuid, told.before, devices.availability, devices.why

-- name: withdraw
-- At its owner's word, before the node has heard of it. What is sick stays so: that says more.
UPDATE devices SET availability = :availability, why = :why
WHERE node_id = :node_id AND is_present AND uuid = ANY(:uuids) AND availability <> 'sick'
