-- name: devices
-- Each is one of the three. A device in use is busy, whether or not it would take more.
SELECT devices.kind,
    count(*) FILTER (WHERE free_milli = 1000 AND is_there) AS free,
    count(*) FILTER (WHERE free_milli < 1000) AS busy,
    count(*) FILTER (WHERE free_milli = 1000 AND NOT is_there) AS away
FROM devices JOIN nodes ON nodes.id = node_id
CROSS JOIN LATERAL (
    SELECT nodes.state = 'online' AND cordoned_at IS NULL AND standing = 'bound'
        AND availability = 'available'
) AS standing_now (is_there)
WHERE is_present AND nodes.state <> 'left'
GROUP BY devices.kind

-- name: totals
-- Waiting tasks are counted up to a limit.
SELECT
    (SELECT count(*) FROM nodes WHERE state = 'online') AS nodes,
    (SELECT count(*) FROM nodes WHERE state = 'silent') AS silent_nodes,
    (SELECT count(*) FROM (SELECT FROM tasks WHERE is_waiting LIMIT :limit) AS counted)
        AS waiting_tasks,
    (SELECT count(*) FROM attempts WHERE finished_at IS NULL) AS running_attempts

-- name: offers
-- Devices that would take work of others now or when they are free, alike ones together.
SELECT devices.kind, model, price_micro_per_hour, max(devices.memory_bytes) AS memory_bytes,
    count(*) AS devices, count(*) FILTER (WHERE free_milli = 1000) AS free
FROM devices JOIN nodes ON nodes.id = node_id
WHERE is_present AND nodes.state = 'online' AND cordoned_at IS NULL AND NOT own_tasks_only
    AND standing = 'bound' AND availability = 'available'
GROUP BY devices.kind, model, price_micro_per_hour
ORDER BY count(*) DESC, model, price_micro_per_hour LIMIT :limit

-- name: wishes
-- Of waiting tasks, up to a limit, those with the same wishes together; the frequent ones.
SELECT requirements ->> 'device_kind' AS kind, requirements ->> 'device_model' AS model,
    coalesce((requirements ->> 'device_memory_bytes')::bigint, 0) AS memory_bytes,
    (requirements ->> 'max_price_micro_per_hour')::bigint AS max_price_micro_per_hour,
    count(*) AS tasks
FROM (SELECT requirements FROM tasks WHERE is_waiting LIMIT :limit) AS counted
GROUP BY 1, 2, 3, 4 ORDER BY count(*) DESC LIMIT :wishes
