-- name: overview
SELECT clock_timestamp() AS at,
    (SELECT version_num FROM schema_version) AS schema_version,
    leader.term, leader.holder, leader.expires_at > clock_timestamp() AS has_leader,
    (SELECT count(*) FROM (SELECT FROM tasks WHERE is_waiting LIMIT :limit) AS counted)
        AS waiting_tasks,
    (SELECT created_at FROM tasks WHERE is_waiting ORDER BY id LIMIT 1) AS oldest_waiting_at,
    (SELECT count(*) FROM attempts WHERE finished_at IS NULL) AS running_attempts,
    (SELECT count(*) FROM nodes WHERE state <> 'left' AND cordoned_at IS NOT NULL)
        AS cordoned_nodes,
    pg_database_size(current_database()) AS database_bytes,
    (SELECT coalesce(sum(used_bytes), 0)::bigint FROM blob_use) AS blob_bytes,
    latest.finished_at, latest.size_bytes, latest.missing_blobs,
    EXISTS (SELECT FROM backups WHERE finished_at IS NULL AND guarded_until > now()) AS is_backing_up
FROM leader LEFT JOIN LATERAL (
    SELECT finished_at, size_bytes, missing_blobs FROM backups
    WHERE finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT 1) AS latest ON true

-- name: instances
SELECT id, version, started_at, seen_at FROM instances
WHERE seen_at > now() - :seen_within::interval ORDER BY started_at

-- name: ended
SELECT state, reason, count(*) AS tasks FROM tasks
WHERE finished_at > now() - :within::interval AND cleared_at IS NULL
GROUP BY state, reason ORDER BY count(*) DESC

-- name: nodes
SELECT state, coalesce(description ->> 'potluck_version', '') AS version, count(*) AS nodes
FROM nodes WHERE state <> 'left' GROUP BY 1, 2 ORDER BY 1, 2

-- name: current_alerts
SELECT name, state, count(*) AS alerts FROM alerts WHERE state IN ('pending', 'firing')
GROUP BY name, state ORDER BY name

-- name: limit_time
SELECT set_config('statement_timeout', :timeout, true)

-- name: history
-- By the index of tasks that are not cleared; the limit bounds the work in a pool with many.
WITH ended AS (
    SELECT state, finished_at,
        extract(epoch FROM started_at - greatest(created_at, not_before)) AS wait_seconds,
        extract(epoch FROM finished_at - started_at) AS run_seconds
    FROM tasks
    WHERE finished_at > now() - :within::interval AND cleared_at IS NULL
    ORDER BY finished_at DESC LIMIT :limit
)
SELECT date_bin(:step::interval, finished_at, timestamptz 'epoch') AS at,
    count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
    count(*) FILTER (WHERE state = 'failed') AS failed,
    count(*) FILTER (WHERE state IN ('cancelled', 'expired')) AS stopped,
    percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY greatest(wait_seconds, 0)) AS waits,
    percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY run_seconds) AS runs
FROM ended GROUP BY 1 ORDER BY 1
