-- name: earned
-- By day, node and device, and the total. An attempt with several devices is counted for none of
-- them, since the split is unknown. Its time is the paid time of each of its devices, a share of a
-- device as its part: the server may have learned of the end much later. A payment counts when it
-- was made: a re-adopted attempt keeps its earlier payment, and ends another time.
WITH worked AS (
    SELECT id AS attempt_id, node_id, finished_at AS at, 1 AS attempts, 0 AS earned_micro,
        0 AS fee_micro, usage,
        coalesce(least(greatest(0, extract(epoch FROM finished_at - started_at))::double precision,
            (usage ->> 'run_seconds')::double precision), 0) AS seconds
    FROM attempts
    WHERE provider_id = :provider_id AND finished_at >= :since AND finished_at < :until
    UNION ALL
    SELECT attempt_id, node_id, ledger_entries.created_at, 0,
        CASE WHEN kind = 'fee' THEN 0 ELSE amount_micro END,
        CASE WHEN kind = 'fee' THEN -amount_micro ELSE 0 END, NULL, 0
    FROM ledger_entries JOIN attempts ON attempts.id = attempt_id
    WHERE account_id = :provider_id AND (kind IN ('reward', 'fee')
            OR kind = 'reversal' AND purse = 'held_back')
        AND ledger_entries.created_at >= :since AND ledger_entries.created_at < :until
), placed AS (
    SELECT worked.*, (at AT TIME ZONE 'UTC')::date AS day, device_id, seconds * share AS worked_seconds
    FROM worked CROSS JOIN LATERAL (
        SELECT CASE count(*) WHEN 1 THEN min(device_id) END AS device_id,
            coalesce(sum(milli), 0) / 1000.0::double precision AS share
        FROM attempt_devices WHERE attempt_devices.attempt_id = worked.attempt_id) AS taken
)
SELECT day, node_id, nodes.name AS node_name, device_id, coalesce(sum(attempts), 0) AS attempts,
    coalesce(sum(worked_seconds), 0) AS worked_seconds, coalesce(sum(earned_micro), 0)::bigint AS earned_micro,
    coalesce(sum(fee_micro), 0)::bigint AS fee_micro,
    coalesce(sum((usage ->> 'cpu_seconds')::double precision), 0) AS cpu_seconds,
    coalesce(sum((usage ->> 'device_seconds')::double precision), 0) AS device_seconds,
    -- Unknown if no device reports it, which differs from none.
    sum((usage ->> 'energy_joules')::double precision) AS energy_joules,
    -- Reported by the node and not verified; two of the largest values would overflow.
    least(coalesce(sum((usage ->> 'input_bytes')::numeric), 0), 9223372036854775807)::bigint AS input_bytes,
    least(coalesce(sum((usage ->> 'output_bytes')::numeric), 0), 9223372036854775807)::bigint AS output_bytes,
    grouping(day) = 1 AS is_total
FROM placed JOIN nodes ON nodes.id = node_id
GROUP BY GROUPING SETS ((day, node_id, nodes.name, device_id), ())
-- The total first, then the newest.
ORDER BY is_total DESC, day DESC, node_id, device_id
LIMIT :limit
