-- name: page
-- The newest before one of them; of an array, perhaps only those that were granted one item. However
-- many there are, so many are looked at.
SELECT attempts.*, nodes.name AS node_name,
    coalesce((
        SELECT jsonb_agg(jsonb_build_object('device_id', device_id, 'model', devices.model,
            'milli', milli, 'memory_bytes', attempt_devices.memory_bytes) ORDER BY devices.position)
        FROM attempt_devices JOIN devices ON devices.id = device_id
        WHERE attempt_devices.attempt_id = attempts.id
    ), '[]') AS devices
FROM (
    SELECT * FROM attempts WHERE task_id = $1 AND number < $2 ORDER BY number DESC LIMIT $3
) AS attempts
JOIN nodes ON nodes.id = attempts.node_id
WHERE $4::integer IS NULL OR attempts.items @> $4::integer
ORDER BY attempts.number DESC
