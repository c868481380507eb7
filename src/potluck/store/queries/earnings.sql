-- name: earned
-- By day, node and device, and the total of all. An attempt that had several devices is counted to
-- none of them: what each has earned of it nobody knows. It worked for as long as it is paid for:
-- until the server heard of the end, much more may have passed.
WITH ended AS (
    SELECT attempts.id, node_id, (finished_at AT TIME ZONE 'UTC')::date AS day,
        coalesce(least(extract(epoch FROM finished_at - started_at)::double precision,
            (usage ->> 'run_seconds')::double precision), 0) AS seconds,
        (SELECT CASE count(*) WHEN 1 THEN min(device_id) END FROM attempt_devices
            WHERE attempt_id = attempts.id) AS device_id,
        coalesce((SELECT sum(amount_micro) FROM ledger_entries
            WHERE attempt_id = attempts.id AND kind = 'reward'), 0)::bigint AS reward_micro
    FROM attempts
    WHERE provider_id = $1 AND finished_at >= $2 AND finished_at < $3
)
SELECT day, node_id, nodes.name AS node_name, device_id, count(*) AS attempts,
    sum(seconds) AS seconds, sum(reward_micro)::bigint AS reward_micro,
    grouping(day) = 1 AS is_total
FROM ended JOIN nodes ON nodes.id = node_id
GROUP BY GROUPING SETS ((day, node_id, nodes.name, device_id), ())
-- The total first, then the newest.
ORDER BY is_total DESC, day DESC, node_id, device_id
LIMIT $4
