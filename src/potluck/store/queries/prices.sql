-- name: cheapest
-- Of a CPU a task takes, and pays, the share that its cores make up.
SELECT min(price_micro_per_hour
    * CASE WHEN kind = 'cpu' THEN greatest(1, 1000 * $1::bigint / nodes.cores) ELSE 1000 END)
    / 1000 * $2::bigint
FROM devices JOIN nodes ON nodes.id = node_id
WHERE is_present AND standing = 'bound' AND nodes.state = 'online'
