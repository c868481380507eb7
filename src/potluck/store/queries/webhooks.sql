-- name: add
-- Only what happens from now on is sent.
INSERT INTO webhooks
    (id, account_id, name, kinds, task_id, sealed_destination, created_at, next_at, place)
SELECT $1, $2, $3, $4, $5, $6, $7, $7, place FROM event_head
RETURNING *, 0::bigint AS waiting

-- name: count
-- Whoever makes several at once is held to the limit too.
WITH one_after_the_other AS (
    SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE
)
SELECT count(*) FROM webhooks
WHERE account_id = $1 AND (SELECT count(*) FROM one_after_the_other) >= 0

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
DELETE FROM webhooks WHERE id = $1 AND account_id = $2 RETURNING name

-- name: pause
UPDATE webhooks SET paused_at = $2, paused_for = $3, paused_detail = $4
WHERE id = $1 AND paused_at IS NULL

-- name: resume
UPDATE webhooks SET paused_at = NULL, paused_for = NULL, paused_detail = '',
    failures = 0, failing_since = NULL, next_at = $2,
    place = CASE WHEN $3 THEN (SELECT place FROM event_head) ELSE place END
WHERE id = $1

-- name: resume_deliveries
-- They have their whole time again, and whoever tries one now is not believed any more.
UPDATE deliveries SET next_at = $2, first_tried_at = NULL, claimed_until = NULL
WHERE webhook_id = $1 AND state = 'pending'

-- name: skip_deliveries
UPDATE deliveries SET state = 'given_up', ended_at = $2, claimed_until = NULL
WHERE webhook_id = $1 AND state = 'pending'

-- name: succeeded
UPDATE webhooks SET failures = 0, failing_since = NULL, succeeded_at = $2,
    next_at = least(next_at, $2)
WHERE id = $1

-- name: failed
UPDATE webhooks SET failures = failures + 1, failing_since = coalesce(failing_since, $2), next_at = $3
WHERE id = $1
