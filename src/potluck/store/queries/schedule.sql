-- name: waiting
-- A page of the queue in the order in which it is served, from behind the last page's end on.
SELECT id, account_id, priority, requirements, limits,
    coalesce((
        SELECT array_agg(DISTINCT node_id) FROM attempts WHERE task_id = tasks.id
    ), '{}') AS failed_on
FROM tasks
WHERE state = 'queued'
    AND (not_before IS NULL OR not_before <= now())
    AND (start_before IS NULL OR start_before > now() OR started_at IS NOT NULL)
    AND ($1::integer IS NULL OR priority < $1 OR (priority = $1 AND id > $2))
ORDER BY priority DESC, id
LIMIT $3

-- name: next_ready
-- When the first of those that are put off may be tried again.
SELECT extract(epoch FROM min(not_before) - now())::double precision FROM tasks
WHERE state = 'queued' AND not_before IS NOT NULL AND not_before > now()

-- name: nodes
SELECT id, account_id, own_tasks_only, cores,
    cores - used_cores AS free_cores,
    memory_bytes - used_memory_bytes AS free_memory_bytes,
    disk_bytes - used_disk_bytes AS free_disk_bytes
FROM nodes WHERE state = 'online' ORDER BY id

-- name: devices
SELECT devices.id, node_id, kind, model, devices.memory_bytes, price_micro_per_hour, free_milli
FROM devices JOIN nodes ON nodes.id = node_id
WHERE is_present AND standing = 'bound' AND nodes.state = 'online'
ORDER BY node_id, position

-- name: balances
SELECT account_id, available_micro FROM balances WHERE account_id = ANY($1)

-- name: cheapest
-- Of a CPU a task takes, and pays, the share that its cores make up.
SELECT min(price_micro_per_hour
    * CASE WHEN kind = 'cpu' THEN greatest(1, 1000 * $1::bigint / nodes.cores) ELSE 1000 END)
    / 1000 * $2::bigint
FROM devices JOIN nodes ON nodes.id = node_id
WHERE is_present AND standing = 'bound' AND nodes.state = 'online'
