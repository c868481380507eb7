-- name: add
-- Only events from now on are sent.
INSERT INTO webhooks
    (id, account_id, name, kinds, task_id, sealed_destination, created_at, next_at, place)
SELECT :webhook_id, :account_id, :name, :kinds, :task_id, :sealed_destination, :now, :now,
    newest_event_place()
RETURNING *, 0::bigint AS waiting

-- name: lock_account
-- A separate statement: the next one sees what was committed while this one waited.
SELECT 1 FROM accounts WHERE id = :account_id FOR NO KEY UPDATE

-- name: count
SELECT count(*) FROM webhooks WHERE account_id = :account_id

-- name: of_account
SELECT *, (
    SELECT count(*) FROM deliveries WHERE webhook_id = webhooks.id AND state = 'pending'
) AS waiting
FROM webhooks WHERE account_id = :account_id AND id > coalesce(:behind::text, '')
ORDER BY id LIMIT :limit

-- name: get
SELECT *, (
    SELECT count(*) FROM deliveries WHERE webhook_id = webhooks.id AND state = 'pending'
) AS waiting
FROM webhooks WHERE id = :webhook_id AND account_id = :account_id

-- name: lock
SELECT *, 0::bigint AS waiting FROM webhooks
WHERE id = :webhook_id AND account_id = :account_id FOR UPDATE

-- name: change
UPDATE webhooks SET name = :webhook.name, kinds = :webhook.kinds,
    sealed_destination = :sealed_destination, old_secret_until = :webhook.old_secret_until
WHERE id = :webhook.id

-- name: remove
DELETE FROM webhooks WHERE id = :webhook_id AND account_id = :account_id

-- name: pause
UPDATE webhooks SET paused_at = :now, paused_for = :reason, paused_detail = :detail
WHERE id = :webhook_id AND paused_at IS NULL
RETURNING id

-- name: resume
UPDATE webhooks SET paused_at = NULL, paused_for = NULL, paused_detail = '',
    failures = 0, failing_since = NULL, next_at = :now,
    place = CASE WHEN :skip_missed THEN newest_event_place() ELSE place END
WHERE id = :webhook_id

-- name: begin_anew
UPDATE webhooks SET failures = 0, failing_since = NULL, next_at = :now WHERE id = :webhook_id

-- name: resume_deliveries
-- They get their full time again. A delivery in progress keeps its slot until the claim expires,
-- and its result is ignored: it would undo this.
UPDATE deliveries SET next_at = :now, first_tried_at = NULL,
    tries = CASE WHEN claimed_until IS NULL THEN tries ELSE tries + 1 END
WHERE webhook_id = :webhook_id AND state = 'pending'

-- name: skip_deliveries
-- Except for deliveries in progress, which keep their slot until the claim expires.
UPDATE deliveries SET state = 'given_up', ended_at = :now, claimed_until = NULL
WHERE webhook_id = :webhook_id AND state = 'pending' AND coalesce(claimed_until <= :now, true)

-- name: succeeded
UPDATE webhooks SET failures = 0, failing_since = NULL, succeeded_at = :now,
    next_at = least(next_at, :now)
WHERE id = :webhook_id

-- name: given_up
-- Without queued deliveries it is unknown whether it still fails.
UPDATE webhooks SET failures = 0, failing_since = NULL
WHERE id = :webhook_id AND NOT EXISTS (
    SELECT FROM deliveries WHERE webhook_id = :webhook_id AND state = 'pending'
)

-- name: failed
UPDATE webhooks SET failures = failures + 1, failing_since = coalesce(failing_since, :now),
    next_at = :next_at
WHERE id = :webhook_id
