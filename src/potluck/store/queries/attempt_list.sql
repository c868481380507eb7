-- name: page
-- The newest before a number; of an array, optionally only those granted one item. Scans at most
-- `limit` attempts.
SELECT attempts.*, nodes.name AS node_name,
    coalesce((
        SELECT jsonb_agg(jsonb_build_object('device_id', device_id, 'model', devices.model,
            'milli', milli, 'memory_bytes', attempt_devices.memory_bytes) ORDER BY devices.position)
        FROM attempt_devices JOIN devices ON devices.id = device_id
        WHERE attempt_devices.attempt_id = attempts.id
    ), '[]') AS devices
FROM (
    SELECT * FROM attempts WHERE task_id = :task_id AND number < :before_number
    ORDER BY number DESC LIMIT :limit
) AS attempts
JOIN nodes ON nodes.id = attempts.node_id
WHERE :item::integer IS NULL OR attempts.items @> :item::integer
ORDER BY attempts.number DESC
