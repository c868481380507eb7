-- name: moment
SELECT now()

-- name: is_any
-- Many pools have no webhook at all: then nothing else is asked.
SELECT EXISTS (SELECT FROM webhooks WHERE paused_at IS NULL)

-- name: behind
-- Webhooks for which there may be something new, and which have room for it. Whoever works with one
-- just now is not waited for.
SELECT webhooks.id, account_id, kinds, task_id, place FROM webhooks
JOIN accounts ON accounts.id = account_id
WHERE paused_at IS NULL AND suspended_at IS NULL
    AND EXISTS (
        SELECT FROM events
        WHERE events.account_id = webhooks.account_id AND events.place > webhooks.place
    )
    AND (
        SELECT count(*) FROM deliveries WHERE webhook_id = webhooks.id AND state = 'pending'
    ) <= $1
ORDER BY place LIMIT $2
FOR UPDATE OF webhooks SKIP LOCKED

-- name: events_behind
SELECT id, place, kind, task_id, node_id FROM events
WHERE account_id = $1 AND place > $2 ORDER BY place LIMIT $3

-- name: add
INSERT INTO deliveries (id, webhook_id, event_id, place, lane, created_at, next_at)
SELECT id, $2, event_id, place, lane, $3, $3
FROM unnest($1::text[], $4::bigint[], $5::bigint[], $6::text[]) AS delivery (id, event_id, place, lane)

-- name: move_on
UPDATE webhooks SET place = $2 WHERE id = $1

-- name: claim
-- From each webhook that may be sent to, as many as it has room for: one, while it fails. Of a lane
-- only the first that is not over. What was tried less often goes first, so that one event that
-- nobody takes does not stand before the others.
WITH taken AS (
    -- Places by account, as their sender counts them: rows may go while something is being sent.
    SELECT * FROM unnest($5::text[], $6::bigint[]) AS taken (account_id, places)
), ready AS (
    SELECT webhooks.id, account_id, CASE WHEN failures = 0 THEN $3::bigint ELSE 1 END - (
        SELECT count(*) FROM deliveries
        WHERE webhook_id = webhooks.id AND state = 'pending' AND claimed_until > $1
    ) AS room
    FROM webhooks JOIN accounts ON accounts.id = account_id
    WHERE paused_at IS NULL AND suspended_at IS NULL AND next_at <= $1
), found AS (
    SELECT found.id, found.next_at, coalesce(places, 0) + row_number() OVER (
        PARTITION BY account_id ORDER BY found.next_at, found.id
    ) AS place_of_account
    FROM ready LEFT JOIN taken USING (account_id) CROSS JOIN LATERAL (
        SELECT mine.id, mine.next_at FROM deliveries AS mine
        WHERE mine.webhook_id = ready.id AND mine.state = 'pending' AND mine.next_at <= $1
            AND coalesce(mine.claimed_until <= $1, true)
            AND NOT EXISTS (
                SELECT FROM deliveries AS earlier
                WHERE earlier.webhook_id = mine.webhook_id AND earlier.lane = mine.lane
                    AND earlier.state = 'pending' AND earlier.place < mine.place
            )
        ORDER BY mine.tries, mine.place LIMIT greatest(ready.room, 0)
    ) AS found
), chosen AS (
    -- Who has the fewest places gets the next.
    SELECT id FROM found WHERE place_of_account <= $7
    ORDER BY place_of_account, next_at, id LIMIT $4
)
UPDATE deliveries SET tries = deliveries.tries + 1, claimed_until = $1::timestamptz + $2::interval,
    first_tried_at = coalesce(deliveries.first_tried_at, $1)
FROM chosen, webhooks, events LEFT JOIN tasks ON tasks.id = events.task_id
WHERE deliveries.id = chosen.id AND webhooks.id = deliveries.webhook_id
    AND events.id = deliveries.event_id
    -- As it is once the row is ours: another may have been faster.
    AND deliveries.state = 'pending' AND coalesce(deliveries.claimed_until <= $1, true)
RETURNING deliveries.id AS delivery_id, deliveries.webhook_id, webhooks.account_id, deliveries.tries,
    deliveries.first_tried_at,
    webhooks.sealed_destination, webhooks.old_secret_until,
    events.id, events.kind, events.created_at, events.task_id, events.node_id, events.data,
    tasks.name AS task_name

-- name: lock_claimed
-- Still the same try, and what is known of its webhook. In this order everywhere: the webhook first.
SELECT webhooks.id AS webhook_id, account_id, webhooks.name, failures, failing_since, succeeded_at
FROM webhooks
WHERE webhooks.id = $3 AND EXISTS (
    SELECT FROM deliveries WHERE deliveries.id = $1 AND state = 'pending' AND tries = $2
)
FOR UPDATE

-- name: note
INSERT INTO delivery_tries (delivery_id, number, at, seconds, status, detail)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING

-- name: finish
UPDATE deliveries SET state = $3, ended_at = $4, claimed_until = NULL
WHERE id = $1 AND tries = $2 AND state = 'pending'
RETURNING id

-- name: try_later
UPDATE deliveries SET next_at = $3, claimed_until = NULL
WHERE id = $1 AND tries = $2 AND state = 'pending'
RETURNING id

-- name: put_back
-- Nothing was sent: as if nobody had claimed it.
UPDATE deliveries SET next_at = $3, claimed_until = NULL, tries = tries - 1,
    first_tried_at = CASE WHEN tries > 1 THEN first_tried_at END
WHERE id = $1 AND tries = $2 AND state = 'pending'

-- name: newest
SELECT deliveries.id, deliveries.state, deliveries.created_at, tries, ended_at,
    greatest(deliveries.next_at, webhooks.next_at) AS next_at,
    paused_at IS NULL AS is_sent,
    events.id AS event_number, events.created_at AS event_at, events.kind, events.task_id
FROM deliveries JOIN webhooks ON webhooks.id = webhook_id JOIN events ON events.id = event_id
WHERE webhook_id = $1 AND deliveries.id < $2 ORDER BY deliveries.id DESC LIMIT $3

-- name: get
SELECT deliveries.id, deliveries.state, deliveries.created_at, tries, ended_at,
    greatest(deliveries.next_at, webhooks.next_at) AS next_at,
    paused_at IS NULL AS is_sent,
    events.id AS event_number, events.created_at AS event_at, events.kind, events.task_id
FROM deliveries JOIN webhooks ON webhooks.id = webhook_id JOIN events ON events.id = event_id
WHERE deliveries.id = $1 AND webhook_id = $2

-- name: tries
-- The newest few of each.
SELECT found.* FROM unnest($1::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT * FROM delivery_tries WHERE delivery_id = asked.id ORDER BY number DESC LIMIT $2
) AS found
ORDER BY delivery_id, number DESC

-- name: hurry
-- The one that still waits of the same event, whichever was named.
UPDATE deliveries SET next_at = $3 WHERE id = (
    SELECT id FROM deliveries
    WHERE webhook_id = $1 AND state = 'pending'
        AND event_id = (SELECT event_id FROM deliveries WHERE id = $2)
    ORDER BY id LIMIT 1
)
RETURNING id

-- name: hurry_webhook
UPDATE webhooks SET next_at = least(next_at, $2) WHERE id = $1

-- name: again
-- Past the order of its lane: it was its turn before. Not if too many wait already.
INSERT INTO deliveries (id, webhook_id, event_id, place, lane, created_at, next_at)
SELECT $3, webhook_id, event_id, place, $3, $4, $4 FROM deliveries
WHERE id = $1 AND webhook_id = $2
    AND (SELECT count(*) FROM deliveries WHERE webhook_id = $2 AND state = 'pending') < $5
RETURNING id

-- name: forget
WITH gone AS (
    DELETE FROM deliveries WHERE id IN (
        SELECT id FROM deliveries
        WHERE state <> 'pending' AND ended_at < now() - $1::interval
        ORDER BY ended_at LIMIT $2
    ) RETURNING id
)
SELECT count(*) FROM gone
