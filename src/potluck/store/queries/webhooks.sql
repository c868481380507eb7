-- name: add
-- Only what happens from now on is sent.
INSERT INTO webhooks
    (id, account_id, name, kinds, task_id, sealed_destination, created_at, next_at, place)
SELECT $1, $2, $3, $4, $5, $6, $7, $7, place FROM event_head
RETURNING *, 0::bigint AS waiting

-- name: lock_account
-- A statement of its own: the next one sees what was committed while this one waited.
SELECT FROM accounts WHERE id = $1 FOR NO KEY UPDATE

-- name: count
SELECT count(*) FROM webhooks WHERE account_id = $1

-- name: of_account
SELECT *, (
    SELECT count(*) FROM deliveries WHERE webhook_id = webhooks.id AND state = 'pending'
) AS waiting
FROM webhooks WHERE account_id = $1 ORDER BY id

-- name: get
SELECT *, (
    SELECT count(*) FROM deliveries WHERE webhook_id = webhooks.id AND state = 'pending'
) AS waiting
FROM webhooks WHERE id = $1 AND account_id = $2

-- name: lock
SELECT *, 0::bigint AS waiting FROM webhooks WHERE id = $1 AND account_id = $2 FOR UPDATE

-- name: change
UPDATE webhooks SET name = $2, kinds = $3, sealed_destination = $4, old_secret_until = $5
WHERE id = $1

-- name: remove
DELETE FROM webhooks WHERE id = $1 AND account_id = $2

-- name: pause
UPDATE webhooks SET paused_at = $2, paused_for = $3, paused_detail = $4
WHERE id = $1 AND paused_at IS NULL
RETURNING id

-- name: resume
UPDATE webhooks SET paused_at = NULL, paused_for = NULL, paused_detail = '',
    failures = 0, failing_since = NULL, next_at = $2,
    place = CASE WHEN $3 THEN (SELECT place FROM event_head) ELSE place END
WHERE id = $1

-- name: begin_anew
UPDATE webhooks SET failures = 0, failing_since = NULL, next_at = $2 WHERE id = $1

-- name: resume_deliveries
-- They have their whole time again. Whoever sends one now keeps its place until the claim is over,
-- and is not believed any more: what comes of that would undo this.
UPDATE deliveries SET next_at = $2, first_tried_at = NULL,
    tries = CASE WHEN claimed_until IS NULL THEN tries ELSE tries + 1 END
WHERE webhook_id = $1 AND state = 'pending'

-- name: skip_deliveries
-- But for what is being sent: that keeps its place until the claim is over.
UPDATE deliveries SET state = 'given_up', ended_at = $2, claimed_until = NULL
WHERE webhook_id = $1 AND state = 'pending' AND coalesce(claimed_until <= $2, true)

-- name: succeeded
UPDATE webhooks SET failures = 0, failing_since = NULL, succeeded_at = $2,
    next_at = least(next_at, $2)
WHERE id = $1

-- name: given_up
-- Where nothing waits any more, nobody knows whether it still fails.
UPDATE webhooks SET failures = 0, failing_since = NULL
WHERE id = $1 AND NOT EXISTS (
    SELECT FROM deliveries WHERE webhook_id = $1 AND state = 'pending'
)

-- name: failed
UPDATE webhooks SET failures = failures + 1, failing_since = coalesce(failing_since, $2), next_at = $3
WHERE id = $1
