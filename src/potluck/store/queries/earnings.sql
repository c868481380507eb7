-- name: earned
-- By day, node and device, and the total of all. An attempt that had several devices is counted to
-- none of them: what each has earned of it nobody knows. It worked for as long as it is paid for:
-- until the server heard of the end, much more may have passed. What was paid counts when it was: an
-- attempt that is taken back keeps what it had, and ends another time.
WITH worked AS (
    SELECT id AS attempt_id, node_id, finished_at AS at, 1 AS attempts, 0 AS reward_micro, usage,
        coalesce(least(extract(epoch FROM finished_at - started_at)::double precision,
            (usage ->> 'run_seconds')::double precision), 0) AS seconds
    FROM attempts
    WHERE provider_id = :provider_id AND finished_at >= :since AND finished_at < :until
    UNION ALL
    SELECT attempt_id, node_id, ledger_entries.created_at, 0, amount_micro, NULL, 0
    FROM ledger_entries JOIN attempts ON attempts.id = attempt_id
    WHERE account_id = :provider_id AND kind = 'reward'
        AND ledger_entries.created_at >= :since AND ledger_entries.created_at < :until
), placed AS (
    SELECT worked.*, (at AT TIME ZONE 'UTC')::date AS day,
        (SELECT CASE count(*) WHEN 1 THEN min(device_id) END FROM attempt_devices
            WHERE attempt_devices.attempt_id = worked.attempt_id) AS device_id
    FROM worked
)
SELECT day, node_id, nodes.name AS node_name, device_id, sum(attempts) AS attempts,
    sum(seconds) AS seconds, sum(reward_micro)::bigint AS reward_micro,
    coalesce(sum((usage ->> 'cpu_seconds')::double precision), 0) AS cpu_seconds,
    coalesce(sum((usage ->> 'device_seconds')::double precision), 0) AS device_seconds,
    -- Unknown where no device tells it, which is not the same as none.
    sum((usage ->> 'energy_joules')::double precision) AS energy_joules,
    -- What a node says is its own word, and two of the largest would be too much.
    least(coalesce(sum((usage ->> 'input_bytes')::numeric), 0), 9223372036854775807)::bigint AS input_bytes,
    least(coalesce(sum((usage ->> 'output_bytes')::numeric), 0), 9223372036854775807)::bigint AS output_bytes,
    grouping(day) = 1 AS is_total
FROM placed JOIN nodes ON nodes.id = node_id
GROUP BY GROUPING SETS ((day, node_id, nodes.name, device_id), ())
-- The total first, then the newest.
ORDER BY is_total DESC, day DESC, node_id, device_id
LIMIT :limit
