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
