-- name: waiting
-- The head of the queue: more than one round can place, in the order in which they are served.
SELECT tasks.id, account_id, request, priority, queued_at, not_before, start_before, now() AS now,
    coalesce((
        SELECT array_agg(DISTINCT node_id) FROM attempts
        WHERE task_id = tasks.id AND reason <> 'withdrawn'
    ), '{}') AS failed_on
FROM tasks WHERE state = 'queued'
ORDER BY priority DESC, queued_at, tasks.id LIMIT $1

-- name: nodes
SELECT id, account_id, own_tasks_only, cores, free_cores, free_memory_bytes, free_disk_bytes
FROM nodes WHERE state = 'online' ORDER BY id

-- name: devices
SELECT devices.id, node_id, kind, model, devices.memory_bytes, price_micro_per_hour, free_milli
FROM devices JOIN nodes ON nodes.id = node_id
WHERE is_present AND nodes.state = 'online'
ORDER BY node_id, position

-- name: balances
SELECT account_id, available_micro FROM balances WHERE account_id = ANY($1)

-- name: cheapest
SELECT min(price_micro_per_hour) FROM devices JOIN nodes ON nodes.id = node_id
WHERE is_present AND nodes.state = 'online'
