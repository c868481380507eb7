-- Whether devices take new work. The node's row is locked before its devices, as everywhere.

-- name: lock_node
-- In a statement before `tell`, which sees a concurrent owner request only if this one waited for
-- it.
SELECT id FROM nodes WHERE id = :node_id FOR UPDATE

-- name: tell
-- A node's report about its devices. Until it knows all owner requests, it may close a device but
-- not open one: it must not undo a pause it does not know of, nor with a delayed message. Only
-- differences are written, since the leader reads every written row.
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
-- At the owner's request, before the node knows of it. A sick device stays sick: that says more.
UPDATE devices SET availability = :availability, why = :why
WHERE node_id = :node_id AND is_present AND uuid = ANY(:uuids) AND availability <> 'sick'
