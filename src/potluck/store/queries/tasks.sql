-- name: insert
INSERT INTO tasks
    (id, account_id, name, kind, sealed_spec, requirements, limits, priority, max_attempts,
    start_before, idempotency_key, request_hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now() + $10::interval, $11, $12)
-- The same key again is the same submission; the caller compares the hash.
ON CONFLICT (account_id, idempotency_key) DO NOTHING
RETURNING id

-- name: by_idempotency_key
SELECT id, request_hash FROM tasks WHERE account_id = $1 AND idempotency_key = $2

-- name: views
-- Of these tasks, those that are the account's.
SELECT id, name, kind, state, priority, created_at, updated_at, requirements, limits, version,
    exit_code, reason, detail, started_at, finished_at, charge_micro, not_before > now() AS is_in_back_off
FROM tasks WHERE id = ANY($1::text[]) AND account_id = $2
ORDER BY id DESC

-- name: attempts
SELECT attempts.*, nodes.name AS node_name,
    coalesce((
        SELECT jsonb_agg(jsonb_build_object('device_id', device_id, 'model', devices.model,
            'milli', milli, 'memory_bytes', attempt_devices.memory_bytes) ORDER BY devices.position)
        FROM attempt_devices JOIN devices ON devices.id = device_id
        WHERE attempt_devices.attempt_id = attempts.id
    ), '[]') AS devices
FROM attempts JOIN nodes ON nodes.id = attempts.node_id
WHERE task_id = ANY($1)
ORDER BY attempts.task_id, attempts.number

-- name: lock
SELECT state FROM tasks WHERE id = $1 AND account_id = $2 FOR UPDATE

-- name: live_attempt
SELECT id FROM attempts WHERE task_id = $1 AND finished_at IS NULL

-- name: finish_queued
-- A task that waits has no attempt: nothing is reserved, held or owed.
UPDATE tasks SET
    state = $2, reason = $3, not_before = NULL,
    finished_at = now(), updated_at = now(), version = version + 1
WHERE id = $1 AND state = 'queued'
RETURNING account_id

-- name: past_deadline
-- One that has been started was in time, also when it is back in the queue.
SELECT id FROM tasks
WHERE state = 'queued' AND started_at IS NULL AND start_before <= now()
ORDER BY start_before LIMIT 1000

-- name: after_attempt
-- The attempt's end decides; the caller holds the lock on this row.
UPDATE tasks SET
    state = $2, reason = $3, detail = $4, exit_code = $5,
    failures = failures + $6, losses = losses + $7, charge_micro = charge_micro + $8,
    not_before = $9,
    finished_at = CASE WHEN $2 = 'queued' THEN NULL ELSE now() END,
    updated_at = now(), version = version + 1
WHERE id = $1

-- name: start
UPDATE tasks SET
    state = 'running', started_at = coalesce(started_at, now()),
    updated_at = now(), version = version + 1
WHERE id = $1 AND state = 'assigned'
RETURNING account_id

-- name: touch
UPDATE tasks SET updated_at = now(), version = version + 1 WHERE id = $1
