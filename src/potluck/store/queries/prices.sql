-- What devices cost and earned.

-- name: history
-- Newest first; of a device that everyone can see, or that the account owns.
SELECT since, device_prices.price_micro_per_hour
FROM device_prices JOIN devices ON devices.id = device_id JOIN nodes ON nodes.id = node_id
WHERE device_id = :device_id AND is_present
    AND (nodes.state <> 'left' OR nodes.account_id = :account_id)
ORDER BY since DESC LIMIT :limit

-- name: similar
-- Devices of other owners that are like this one: of its model, else of its kind and with about its
-- memory. What they worked is counted for each owner; own tasks of an owner prove no price.
WITH this AS (
    SELECT devices.id, devices.kind, model, devices.memory_bytes, account_id,
        -- Offered time is known by day.
        date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - :period::interval AS since
    FROM devices JOIN nodes ON nodes.id = node_id
    WHERE devices.id = :device_id AND account_id = :account_id AND is_present AND state <> 'left'
), other AS (
    SELECT devices.id, nodes.account_id, devices.price_micro_per_hour,
        devices.model = this.model AS is_same_model,
        offered_seconds(devices.id, this.since) AS offered_seconds
    FROM this, devices JOIN nodes ON nodes.id = node_id
    WHERE devices.kind = this.kind AND nodes.account_id <> this.account_id AND is_present
        AND standing = 'bound' AND nodes.state <> 'left' AND NOT own_tasks_only
        AND nodes.heartbeat_at > this.since
        AND (devices.model = this.model
            OR devices.memory_bytes BETWEEN this.memory_bytes * 3 / 4 AND this.memory_bytes * 5 / 4)
    ORDER BY is_same_model DESC, devices.id LIMIT :limit
), alike AS (
    SELECT * FROM other
    WHERE is_same_model OR :least_owners > (
        SELECT count(DISTINCT account_id) FROM other WHERE is_same_model)
), worked AS (
    SELECT alike.id, alike.account_id,
        extract(epoch FROM attempts.finished_at
            - greatest(attempts.started_at, this.since))::double precision
            * share.milli / 1000 AS seconds,
        -- Of the part of the work that was in this time.
        attempts.charge_micro * (10000 - attempts.fee_basis_points) / 10000.0
            * share.milli / (SELECT sum(milli) FROM attempt_devices WHERE attempt_id = attempts.id)
            * extract(epoch FROM attempts.finished_at
                - greatest(attempts.started_at, this.since))::double precision
            / greatest(extract(epoch FROM attempts.finished_at - attempts.started_at), 0.001)
            AS earned_micro,
        attempts.charge_micro > 0 AS is_paid
    FROM this CROSS JOIN alike JOIN attempts ON attempts.provider_id = alike.account_id
        AND attempts.finished_at > this.since
    JOIN attempt_devices AS share ON share.attempt_id = attempts.id AND share.device_id = alike.id
    WHERE attempts.started_at IS NOT NULL AND attempts.consumer_id <> attempts.provider_id
)
SELECT EXISTS (SELECT FROM this) AS is_own,
    coalesce((SELECT bool_and(is_same_model) FROM alike), true) AS is_same_model,
    (SELECT count(*) FROM alike) AS devices,
    (SELECT coalesce(sum(offered_seconds), 0) FROM alike) AS offered_seconds,
    (SELECT coalesce(sum(seconds), 0) FROM worked) AS worked_seconds,
    ARRAY(SELECT price_micro_per_hour FROM alike ORDER BY 1) AS prices,
    ARRAY(SELECT coalesce(sum(seconds), 0) FROM worked WHERE is_paid
        GROUP BY account_id ORDER BY account_id) AS owners_seconds,
    ARRAY(SELECT coalesce(sum(earned_micro), 0)::bigint FROM worked WHERE is_paid
        GROUP BY account_id ORDER BY account_id) AS owners_micro
