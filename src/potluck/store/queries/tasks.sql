-- name: insert
WITH entered AS (
    INSERT INTO tasks
        (id, account_id, name, kind, sealed_spec, requirements, limits, priority, max_attempts,
        start_before, not_before, delay_seconds, expected_seconds, after_ids, waits_for, items, allow_failures,
        pending, idempotency_key, request_hash, sealed_secrets, secret_count, retry_of,
        items_succeeded, items_seconds, traceparent)
    VALUES (:task.id, :task.account_id, :name, :kind, :sealed_spec, :request.requirements,
        :request.limits, :request.priority, :request.max_attempts, now() + :start_within::interval,
        now() + :delay::interval, :request.delay_seconds, :request.expected_seconds,
        :request.after, :waits_for, :request.items, :request.allow_failures, :pending, :task.idempotency_key,
        :task.request_hash, :sealed_secrets, :secret_count, :retry_of,
        :carried_over.items_succeeded, :carried_over.items_seconds, :task.traceparent)
    -- A repeated key is the same submission; the caller compares the hash.
    ON CONFLICT (account_id, idempotency_key) DO NOTHING
    RETURNING id, account_id
), told AS (
    INSERT INTO events (account_id, task_id, kind, data)
    SELECT account_id, id, 'task.queued', '{"state": "queued"}' FROM entered
)
SELECT id FROM entered

-- name: allowance
-- Everything needed before a submission is written: how many tasks may be queued, and with which
-- priority, by the account's own limits or the defaults; its earlier submissions with these keys;
-- and the cheapest price of such tasks on any device of their kind, if there is an offer. Lists are in brackets: the planner
-- would see their length, and plan again each time, which is slower. Keys are looked up one by one,
-- whatever the planner believes: it would read all tasks of the account.
SELECT address, available_micro, coalesce(max_queued_tasks, :quotas.queued) AS queued,
    coalesce(max_priority, :quotas.priority) AS priority,
    earlier.ids, earlier.hashes, earlier.keys,
    ARRAY(
        -- A task takes, and pays for, the share of a CPU that its cores make up.
        -- Of a kind with very many offers, a large machine beyond the first may cost less for a few
        -- cores: then the least that it could be.
        SELECT (
            SELECT min(offer.micro) / 1000 * wanted.number
            FROM (VALUES ('cpu'), ('gpu')) AS of_kind (kind), LATERAL (
                SELECT least(
                    min(price_micro_per_hour * CASE WHEN of_kind.kind = 'cpu'
                        THEN greatest(1, 1000 * wanted.cores / first.cores) ELSE 1000 END),
                    CASE WHEN of_kind.kind = 'cpu' AND count(*) = 64
                        THEN max(price_micro_per_hour) END) AS micro
                FROM (
                    SELECT price_micro_per_hour, nodes.cores
                    FROM devices JOIN nodes ON nodes.id = node_id
                    WHERE is_present AND standing = 'bound' AND nodes.state || '' = 'online'
                        AND devices.kind = of_kind.kind
                    ORDER BY devices.kind, price_micro_per_hour LIMIT 64
                ) AS first
            ) AS offer
            WHERE wanted.kind IS NULL OR of_kind.kind = wanted.kind
        )
        FROM unnest((SELECT :cores::bigint[]), (SELECT :device_counts::bigint[]),
            (SELECT :device_kinds::text[])) WITH ORDINALITY AS wanted (cores, number, kind, place)
        ORDER BY place
    ) AS cheapest
FROM accounts JOIN balances ON account_id = accounts.id, LATERAL (
    SELECT array_agg(task.id) AS ids, array_agg(task.request_hash) AS hashes,
        array_agg(wanted.key) AS keys
    FROM unnest((SELECT :idempotency_keys::text[])) AS wanted (key) CROSS JOIN LATERAL (
        SELECT tasks.id, request_hash FROM tasks
        WHERE tasks.account_id = :account_id AND idempotency_key = wanted.key OFFSET 0
    ) AS task
) AS earlier
WHERE accounts.id = :account_id

-- name: lock_queue
-- One submission per account at a time, so that two do not both take the last place.
SELECT 1 FROM accounts WHERE id = :account_id FOR NO KEY UPDATE

-- name: count_queued
-- Counts up to the limit.
SELECT count(*) FROM (
    SELECT FROM tasks
    WHERE account_id = :account_id AND state = 'queued' AND finished_at IS NULL LIMIT :limit
) AS queued

-- name: by_idempotency_key
SELECT id, request_hash FROM tasks
WHERE account_id = :account_id AND idempotency_key = :idempotency_key

-- name: has_key
SELECT EXISTS (
    SELECT FROM tasks
    WHERE account_id = :account_id AND idempotency_key = ANY(:idempotency_keys::text[])
)

-- name: views
-- Those of the tasks that are the account's; each looked up by its id, whatever the planner believes.
SELECT tasks.id, name, kind, state, priority, created_at, updated_at, requirements, limits, version,
    exit_code, reason, detail, started_at, finished_at, charge_micro, after_ids, waits_for,
    not_before, not_before > now() AS is_put_off,
    start_before, expected_seconds, items, items_succeeded, items_failed, retry_of, is_stream,
    (SELECT coalesce(sum(upper(part) - lower(part)), 0) FROM unnest(pending) AS part)::integer
        AS items_pending,
    (SELECT coalesce(sum(upper(part) - lower(part)), 0) FROM unnest(cancelled) AS part)::integer
        AS items_cancelled
FROM (SELECT DISTINCT id FROM unnest(:task_ids::text[]) AS named (id)) AS wanted
CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id = wanted.id OFFSET 0) AS tasks
WHERE account_id = :account_id
ORDER BY tasks.id DESC

-- name: failed_on
-- Of all attempts; only a few rows matter for where a task should not go again.
SELECT task_id, array_agg(DISTINCT node_id) AS node_ids FROM attempts
WHERE task_id = ANY(:task_ids::text[]) AND state IN ('failed', 'lost')
GROUP BY task_id

-- name: attempts
-- The newest few of each: an array may have thousands.
SELECT attempts.*, nodes.name AS node_name, nodes.heartbeat_at, now() AS read_at,
    finished_at IS NULL AND fetched_at IS NOT NULL AND items IS NULL AS is_held,
    coalesce((
        SELECT jsonb_agg(jsonb_build_object('device_id', device_id, 'model', devices.model,
            'milli', milli, 'memory_bytes', attempt_devices.memory_bytes) ORDER BY devices.position)
        FROM attempt_devices JOIN devices ON devices.id = device_id
        WHERE attempt_devices.attempt_id = attempts.id
    ), '[]') AS devices
FROM unnest(:task_ids::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM attempts WHERE task_id = wanted.id ORDER BY number DESC LIMIT :limit
) AS attempts
JOIN nodes ON nodes.id = attempts.node_id
ORDER BY attempts.task_id, attempts.number

-- name: lock
SELECT state, version FROM tasks WHERE id = :task_id AND account_id = :account_id FOR UPDATE

-- name: versions
SELECT id, version, name, state FROM tasks
WHERE id = ANY(:task_ids::text[]) AND account_id = :account_id ORDER BY id DESC

-- name: lock_queued
SELECT id FROM tasks WHERE id = ANY(:task_ids::text[]) AND state = 'queued' ORDER BY id FOR UPDATE

-- name: end_queued
-- A queued task has no attempt: nothing is reserved, held or owed. An earlier statement has locked
-- the rows, so this one sees all dependents submitted before.
WITH ended AS (
    UPDATE tasks SET
        state = :state, reason = :reason, detail = how.detail, not_before = NULL,
        sealed_secrets = NULL, finished_at = now(), updated_at = now(), version = version + 1
    FROM unnest(:task_ids::text[], :details::text[]) AS how (id, detail)
    WHERE tasks.id = how.id AND state = 'queued'
    RETURNING tasks.id, account_id
), told AS (
    INSERT INTO ended_tasks (after_id, outcome)
    SELECT id, :state FROM ended
    WHERE EXISTS (SELECT FROM dependencies WHERE after_id = ended.id)
)
SELECT id, account_id FROM ended ORDER BY id

-- name: past_deadline
-- A task that was started met its deadline, even if it is back in the queue.
SELECT id FROM tasks
WHERE state = 'queued' AND started_at IS NULL AND start_before <= now()
ORDER BY start_before LIMIT 1000

-- name: traceparents
SELECT id, traceparent FROM tasks WHERE id = ANY(:task_ids::text[]) AND traceparent IS NOT NULL
