-- name: page
-- In the order of ids. With a minimum free share, only devices that can get work count. Memory,
-- price and the rest are compared as for a task; reliability as in failure_record.py.
SELECT devices.id, node_id, nodes.name AS node_name, nodes.state AS node_state,
    devices.description, standing, free_milli,
    -- A cordoned node's devices are away like paused ones, by an admin.
    CASE WHEN cordoned_at IS NULL THEN availability ELSE 'paused' END AS availability,
    CASE WHEN cordoned_at IS NULL THEN why ELSE 'An admin has cordoned its node.' END AS why,
    nodes.account_id = :viewer_id AS is_mine,
    greatest(devices.memory_bytes - devices.used_memory_bytes, 0) AS free_memory_bytes,
    (greatest(finished_attempts - outlier_attempts, 0) + 2)::float8
        / (finished_attempts + lost_attempts + 2) AS reliability,
    coalesce(nodes.description -> 'labels', '[]') AS labels, own_tasks_only
FROM devices JOIN nodes ON nodes.id = node_id
WHERE devices.id > :after_id AND is_present AND nodes.state <> 'left'
    AND devices.kind = ANY(:kinds::text[]) AND (:filter.model::text IS NULL
        OR (model, devices.memory_bytes) IN (SELECT * FROM unnest(:models::text[], :sizes::bigint[])))
    AND (:filter.free_milli = 0 OR free_milli >= :filter.free_milli AND nodes.state = 'online'
        AND cordoned_at IS NULL AND standing = 'bound' AND availability = 'available')
    AND devices.memory_bytes >= :filter.memory_bytes
        AND price_micro_per_hour <= :max_price_micro_per_hour
    AND coalesce(devices.description ->> 'vendor', '') ILIKE :vendor
    AND coalesce(nodes.description -> 'labels', '[]') ?& :filter.labels::text[]
    AND (greatest(finished_attempts - outlier_attempts, 0) + 2)::float8
        / (finished_attempts + lost_attempts + 2) >= :filter.min_reliability
ORDER BY devices.id LIMIT :limit

-- name: models
SELECT DISTINCT model, memory_bytes FROM devices WHERE is_present

-- name: uses
-- From the live attempts of their nodes, which are few; a device has served many before. Only the
-- task's owner and the node's owner see which attempt it is.
SELECT device_id, milli, attempt_devices.memory_bytes,
    CASE WHEN :viewer_id IN (consumer_id, provider_id) THEN attempts.id END AS attempt_id,
    CASE WHEN :viewer_id IN (consumer_id, provider_id) THEN task_id END AS task_id
FROM attempts JOIN attempt_devices ON attempt_id = attempts.id
WHERE node_id = ANY(:node_ids::text[]) AND finished_at IS NULL
    AND device_id = ANY(:device_ids::text[])
ORDER BY device_id, attempts.id

-- name: of_node
SELECT id, uuid FROM devices WHERE node_id = :node_id AND is_present

-- name: own
SELECT node_id, uuid FROM devices JOIN nodes ON nodes.id = node_id
WHERE devices.id = :device_id AND account_id = :account_id AND is_present AND state <> 'left'
