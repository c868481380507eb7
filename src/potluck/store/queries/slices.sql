-- Charging attempts while they run.

-- name: due
SELECT id FROM attempts WHERE next_slice_at <= now() ORDER BY next_slice_at LIMIT :limit

-- name: unresolved
-- Lost ones whose reward is held back, and whose work cannot be resumed where they left it:
-- it was granted to another, or its task is over.
SELECT attempts.id FROM attempts JOIN tasks ON tasks.id = task_id
WHERE held_back_micro > 0 AND attempts.finished_at IS NOT NULL AND attempts.state = 'lost'
    AND (tasks.finished_at IS NOT NULL
        OR CASE WHEN tasks.items IS NULL THEN EXISTS (SELECT FROM attempts AS later
                WHERE later.task_id = tasks.id AND later.number > attempts.number)
            ELSE NOT tasks.pending @> attempts.remaining END)
ORDER BY attempts.finished_at LIMIT :limit

-- name: unjudged
-- Failed ones whose reward is held back, once nothing can refute them any more, or for so long that
-- the provider is not kept waiting: a task may be queued for ever. Some of them wait for ends to
-- compare with: in no order, so that they do not keep others from their turn.
SELECT attempts.id,
    extract(epoch FROM attempts.finished_at - attempts.started_at)::float8 AS seconds,
    attempts.finished_at < now() - :unjudged_duration::interval AS has_waited
FROM attempts JOIN tasks ON tasks.id = task_id
WHERE held_back_micro > 0 AND attempts.finished_at IS NOT NULL AND attempts.state = 'failed'
    AND (tasks.finished_at IS NOT NULL
        OR attempts.finished_at < now() - :longest_duration::interval)
ORDER BY random() LIMIT :limit

-- name: lock_balances
SELECT account_id, available_micro FROM balances
WHERE account_id = ANY(:account_ids::text[]) ORDER BY account_id FOR UPDATE

-- name: write
-- The caller has locked the attempts and their tasks. Several of one task are added up.
WITH charged AS (
    UPDATE attempts SET
        charge_micro = attempts.charge_micro + how.charge_micro,
        held_back_micro = attempts.held_back_micro + how.charge_micro - how.release_micro,
        hold_micro = attempts.hold_micro + how.top_up_micro - how.charge_micro,
        slices = attempts.slices + 1,
        unfunded_at = CASE WHEN NOT how.is_funded THEN now() END,
        next_slice_at = now() + make_interval(secs => how.next_seconds)
    FROM unnest(
            :slices[].attempt.id::text[], :slices[].due.charge_micro::bigint[],
            :slices[].due.release_micro::bigint[], :slices[].due.top_up_micro::bigint[],
            :slices[].due.is_funded::boolean[], :slices[].due.next_seconds::double precision[])
        AS how (id, charge_micro, release_micro, top_up_micro, is_funded, next_seconds)
    WHERE attempts.id = how.id AND attempts.finished_at IS NULL
    RETURNING attempts.task_id, how.charge_micro
)
UPDATE tasks SET charge_micro = tasks.charge_micro + part.charge_micro, updated_at = now(),
    version = version + 1
FROM (SELECT task_id, sum(charge_micro) AS charge_micro FROM charged GROUP BY task_id) AS part
WHERE tasks.id = part.task_id

-- name: resolve
-- Of attempts that have ended: nothing is held back any more.
WITH resolved AS (
    UPDATE attempts SET
        charge_micro = attempts.charge_micro + how.cost_micro, held_back_micro = 0
    FROM unnest(:attempt_ids::text[], :settlements[].cost_micro::bigint[]) AS how (id, cost_micro)
    WHERE attempts.id = how.id
    RETURNING attempts.task_id, how.cost_micro
)
UPDATE tasks SET charge_micro = tasks.charge_micro + part.cost_micro
FROM (SELECT task_id, sum(cost_micro) AS cost_micro FROM resolved GROUP BY task_id) AS part
WHERE tasks.id = part.task_id
