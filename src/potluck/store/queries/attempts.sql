-- Rows are locked in one order everywhere, to avoid deadlocks: leader, account, task, attempt, node
-- key, binding, node, device, dependency, ended task, balance, audit; several of one kind in the
-- order of their ids.

-- `|| ''` keeps a condition from being looked up in an index that has every node of an account, or every
-- device that is offered: the planner would read all of it where it knows of few.

-- name: fetch
-- Grants of this node that it does not list as held. Repeated with the same token until it lists
-- them: a poll that hung up may have lost them. The lease runs from the first time: a node that
-- ignores a grant loses it. A poll may have waited long, so the caller's rights are checked again.
-- Nothing new for a device that its owner has closed meanwhile. Limited in bytes, since sources may
-- be large; the next response has the rest. Includes the node's leases: there is always one row.
WITH granted AS (
    SELECT id, task_id FROM attempts
    WHERE node_id = :node_id AND finished_at IS NULL AND id <> ALL(:held_ids::text[])
        AND (fetched_at IS NOT NULL OR NOT EXISTS (
            SELECT FROM shares_of(attempts.id) AS share
            JOIN devices ON devices.id = device_id WHERE availability <> 'available'))
        AND EXISTS (
            SELECT FROM nodes JOIN accounts ON accounts.id = account_id
            WHERE nodes.id = :node_id AND account_id || '' = :owner.account_id
                AND node_key_id IS NOT DISTINCT FROM :owner.node_key_id
                AND nodes.state <> 'left' AND suspended_at IS NULL
                AND NOT EXISTS (
                    SELECT FROM node_keys
                    WHERE node_keys.id = node_key_id
                        AND (revoked_at IS NOT NULL OR expires_at <= now())))
    ORDER BY id
    LIMIT :limit
), measured AS (
    SELECT granted.id, sum(size) OVER (ORDER BY granted.id) - size AS bytes_before
    FROM granted JOIN tasks ON tasks.id = task_id, LATERAL (
        SELECT octet_length(sealed_spec) + coalesce(octet_length(sealed_secrets), 0)) AS made (size)
), fetched AS (
    SELECT attempts.id FROM attempts JOIN measured USING (id)
    WHERE finished_at IS NULL AND bytes_before < :max_bytes::bigint
    ORDER BY attempts.id
    FOR UPDATE OF attempts
), given AS (
    UPDATE attempts SET
        fetched_at = coalesce(fetched_at, now()),
        heard_at = coalesce(heard_at, now()), heard_since = coalesce(heard_since, now()),
        lease_expires_at = CASE WHEN fetched_at IS NULL THEN now() + :lease_duration::interval
            ELSE lease_expires_at END
    FROM fetched, tasks, accounts
    WHERE attempts.id = fetched.id AND tasks.id = attempts.task_id AND accounts.id = consumer_id
    RETURNING attempts.id, attempts.task_id, attempts.consumer_id, accounts.address AS wallet,
        tasks.sealed_spec, tasks.sealed_secrets, tasks.requirements, tasks.limits,
        attempts.remaining, tasks.items AS items_total, attempts.is_reclaimable, tasks.traceparent,
        attempts.price_micro_per_hour, tasks.is_stream,
        CASE WHEN NOT attempts.has_share THEN attempts.line END AS line,
        attempts.cores, attempts.memory_bytes, attempts.disk_bytes,
        (SELECT jsonb_build_object('sha256', encode(sha256, 'hex'), 'size_bytes', size_bytes)
            FROM task_blobs WHERE task_id = tasks.id AND role = 'checkpoint') AS checkpoint,
        (SELECT coalesce(jsonb_agg(jsonb_build_object('device_id', device_id, 'uuid', devices.uuid,
                'milli', milli, 'memory_bytes', share.memory_bytes)
                ORDER BY devices.position), '[]')
            FROM shares_of(attempts.id) AS share JOIN devices ON devices.id = device_id) AS devices
)
SELECT known.*, given.*
FROM (
    SELECT EXISTS (SELECT FROM wishes WHERE node_id = :node_id) AS has_wishes,
        ARRAY(SELECT attempts.id FROM attempts JOIN nodes ON nodes.id = node_id
            WHERE node_id = :node_id AND finished_at IS NULL
                AND nodes.account_id || '' = :owner.account_id) AS live,
        ARRAY(SELECT id FROM attempts WHERE id = ANY(:held_ids) AND node_id = :node_id
            AND state = 'lost' AND reason = 'lease_expired' ORDER BY id) AS lost
) AS known LEFT JOIN given ON true

-- name: live_of_node
SELECT attempts.id FROM attempts
WHERE node_id = :node_id AND finished_at IS NULL
    AND EXISTS (SELECT FROM nodes WHERE nodes.id = :node_id AND account_id = :account_id)

-- name: unfetched
-- Grants it can no longer run, since a device takes nothing new.
SELECT id FROM attempts
WHERE node_id = :node_id AND finished_at IS NULL AND fetched_at IS NULL AND EXISTS (
    SELECT FROM attempt_devices JOIN devices ON devices.id = device_id
    WHERE attempt_id = attempts.id AND availability <> 'available')
ORDER BY id

-- name: lock_task_of
SELECT id FROM tasks WHERE id = (SELECT task_id FROM attempts WHERE id = :attempt_id) FOR UPDATE

-- name: live_of_task
SELECT id FROM attempts WHERE task_id = :task_id AND finished_at IS NULL

-- name: lock_for_end
-- With their tasks; the statements are in the schema, so that two take one round trip.
SELECT locked.*, stream.*
FROM lock_attempts_of_lines(:attempt_ids::text[]) AS locked,
    LATERAL stream_facts(locked.task_id, locked.id) AS stream

-- name: lock_spared
-- Two attempts of an account that fail on two nodes at once must not be spared for the same credit.
-- A lock of its own: a row of the account is locked in other orders by other transactions.
SELECT count(pg_advisory_xact_lock(hashtextextended(consumer_id, 4027)))
FROM (
    SELECT DISTINCT consumer_id FROM attempts
    WHERE id = ANY(:attempt_ids::text[]) AND price_micro_per_hour > 0
    ORDER BY consumer_id
) AS payers

-- name: failure_records
-- How often the consumer was spared lately, for how much and after how much it paid, and how the
-- newest tasks of the same name ended on nodes of other owners. Only read for failures, which are
-- few; by the index of names.
SELECT attempts.id, spared.number AS spared, spared.micro AS spared_micro,
    -- What it paid to itself has cost it nothing.
    CASE WHEN attempts.price_micro_per_hour = 0 THEN 0 ELSE (
        SELECT coalesce(sum(other.charge_micro), 0)::bigint
        FROM (
            SELECT mine.id FROM tasks AS mine
            WHERE mine.account_id = attempts.consumer_id
                AND mine.created_at > now() - interval '30 days'
            ORDER BY mine.id DESC LIMIT :tasks_limit
        ) AS newest JOIN attempts AS other ON other.task_id = newest.id
        WHERE other.provider_id <> other.consumer_id
    ) END AS paid_micro,
    elsewhere.ended, elsewhere.succeeded, elsewhere.usual_seconds, finished_attempts, lost_attempts,
    outlier_attempts, of_owner.run_seconds, of_owner.outlier_seconds,
    (SELECT max(extract(epoch FROM other.finished_at - other.started_at))::float8
        FROM attempts AS other WHERE other.task_id = tasks.id AND other.state = 'succeeded'
            AND other.provider_id <> attempts.provider_id) AS refuting_seconds
FROM attempts JOIN tasks ON tasks.id = task_id JOIN nodes ON nodes.id = node_id, LATERAL (
    -- At least what they would have cost: the reported time may be shorter.
    SELECT count(*) AS number, coalesce(sum(
        ceil(other.price_micro_per_hour
            * extract(epoch FROM other.finished_at - other.started_at) / 3600)
    ), 0)::bigint AS micro
    FROM attempts AS other
    WHERE other.consumer_id = attempts.consumer_id AND other.is_spared
        AND other.finished_at > now() - interval '30 days'
) AS spared, LATERAL (
    SELECT count(*) AS ended, count(*) FILTER (WHERE newest.state = 'succeeded') AS succeeded,
        coalesce(max(newest.seconds), 0)::float8 AS usual_seconds
    FROM (
        SELECT alike.state, (
            SELECT max(extract(epoch FROM other.finished_at - other.started_at))
            FROM attempts AS other WHERE other.task_id = alike.id AND other.state = 'succeeded'
                AND other.provider_id <> attempts.provider_id) AS seconds
        FROM unnest(ARRAY['succeeded', 'failed']) AS outcome, LATERAL (
            SELECT same.id, same.state FROM tasks AS same
            WHERE same.account_id || '/' || same.name || '/' || same.state || '/' || same.kind
                = tasks.account_id || '/' || tasks.name || '/' || outcome || '/' || tasks.kind
                AND EXISTS (SELECT FROM attempts AS other WHERE other.task_id = same.id
                    AND other.state = outcome AND other.provider_id <> attempts.provider_id)
            ORDER BY same.id COLLATE "POSIX" DESC LIMIT :ends_limit
        ) AS alike
        WHERE tasks.name <> ''
        ORDER BY alike.id DESC LIMIT :ends_limit
    ) AS newest
) AS elsewhere, LATERAL (
    -- For other accounts: an account cannot make a node doubted to be spared there.
    SELECT coalesce(sum(seconds), 0)::float8 AS run_seconds,
        coalesce(sum(seconds) FILTER (WHERE is_outlier), 0)::float8 AS outlier_seconds
    FROM (
        SELECT other.is_outlier, other.consumer_id,
            extract(epoch FROM other.finished_at - other.started_at) AS seconds
        FROM attempts AS other
        WHERE other.provider_id = attempts.provider_id
            AND other.finished_at > now() - interval '30 days'
        ORDER BY other.finished_at DESC LIMIT :attempts_limit
    ) AS newest
    WHERE newest.consumer_id <> attempts.consumer_id
) AS of_owner
WHERE attempts.id = ANY(:attempt_ids::text[])

-- name: log_state
SELECT log_pieces, log_bytes, log_bytes_limit, task_id, now() AS now FROM attempts
WHERE id = :attempt_id AND node_id = :node_id AND finished_at IS NULL

-- name: append_log
UPDATE attempts SET log_pieces = log_pieces + :pieces, log_bytes = log_bytes + :size_bytes
WHERE id = :attempt_id AND log_pieces = :offset AND finished_at IS NULL
RETURNING log_pieces

-- name: log_of_task
-- The log of one attempt, by default the newest.
SELECT attempts.id, attempts.log_pieces, attempts.finished_at IS NULL AS is_live,
    cleared_at IS NOT NULL AS is_cleared
FROM attempts
JOIN tasks ON tasks.id = attempts.task_id
WHERE tasks.id = :task_id AND tasks.account_id = :account_id
    AND (:number::integer IS NULL OR number = :number)
ORDER BY number DESC LIMIT 1
