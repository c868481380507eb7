-- name: contributed
-- By device, and the total, from a moment until now. A share of a device counts as its part. Money of
-- an attempt with several devices is counted for none of them, since the split is unknown.
WITH own_nodes AS (
    SELECT id FROM nodes WHERE account_id = :account_id
), own_attempts AS (
    SELECT * FROM attempts WHERE provider_id = :account_id AND finished_at >= :since
    UNION ALL
    SELECT * FROM attempts WHERE node_id IN (SELECT id FROM own_nodes) AND finished_at IS NULL AND has_share
    UNION ALL
    -- Lost, and not resolved yet.
    SELECT * FROM attempts
    WHERE provider_id = :account_id AND finished_at < :since AND held_back_micro > 0
), figures AS (
    SELECT node_id, id AS device_id, offered_seconds(id, :since) AS offered_seconds,
        0.0::double precision AS assigned_seconds, 0.0::double precision AS worked_seconds,
        0 AS attempts, 0 AS earned_micro, 0 AS fee_micro, 0 AS held_back_micro
    FROM devices WHERE node_id IN (SELECT id FROM own_nodes)
    UNION ALL
    SELECT node_id, device_id, 0,
        milli / 1000.0 * greatest(0, extract(epoch FROM coalesce(finished_at, now())
            - greatest(assigned_at, :since)))::double precision,
        milli / 1000.0 * coalesce(least(
            greatest(0, extract(epoch FROM coalesce(finished_at, now())
                - greatest(started_at, :since)))::double precision,
            (usage ->> 'run_seconds')::double precision), 0),
        0, 0, 0, 0
    FROM own_attempts JOIN attempt_devices ON attempt_id = own_attempts.id
    WHERE coalesce(finished_at, now()) >= :since
    UNION ALL
    SELECT node_id, only_device.device_id, 0, 0, 0,
        CASE WHEN finished_at >= :since THEN 1 ELSE 0 END, 0, 0, held_back_micro
    FROM own_attempts CROSS JOIN LATERAL (
        SELECT CASE count(*) WHEN 1 THEN min(device_id) END AS device_id
        FROM attempt_devices WHERE attempt_id = own_attempts.id) AS only_device
    UNION ALL
    SELECT node_id, only_device.device_id, 0, 0, 0, 0,
        CASE WHEN kind = 'fee' THEN 0 ELSE amount_micro END,
        CASE WHEN kind = 'fee' THEN -amount_micro ELSE 0 END, 0
    FROM ledger_entries JOIN attempts ON attempts.id = attempt_id
    CROSS JOIN LATERAL (
        SELECT CASE count(*) WHEN 1 THEN min(device_id) END AS device_id
        FROM attempt_devices WHERE attempt_devices.attempt_id = attempts.id) AS only_device
    WHERE account_id = :account_id AND ledger_entries.created_at >= :since
        AND (kind IN ('reward', 'fee') OR kind = 'reversal' AND purse = 'held_back')
)
SELECT figures.node_id, nodes.name AS node_name, figures.device_id,
    coalesce(devices.model, '') AS model,
    coalesce(sum(offered_seconds), 0) AS offered_seconds,
    coalesce(sum(assigned_seconds), 0) AS assigned_seconds,
    coalesce(sum(worked_seconds), 0) AS worked_seconds,
    coalesce(sum(attempts), 0)::bigint AS attempts,
    coalesce(sum(earned_micro), 0)::bigint AS earned_micro,
    coalesce(sum(fee_micro), 0)::bigint AS fee_micro,
    coalesce(sum(held_back_micro), 0)::bigint AS held_back_micro,
    grouping(figures.node_id) = 1 AS is_total
FROM figures JOIN nodes ON nodes.id = figures.node_id
LEFT JOIN devices ON devices.id = figures.device_id
GROUP BY GROUPING SETS ((figures.node_id, nodes.name, figures.device_id, devices.model), ())
-- The total first.
ORDER BY is_total DESC, figures.node_id, figures.device_id
LIMIT :limit
