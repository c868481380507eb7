-- name: moment
SELECT now()

-- name: is_any
-- Many pools have no webhook: then no other query is needed.
SELECT EXISTS (SELECT FROM webhooks WHERE paused_at IS NULL)

-- name: behind
-- Webhooks that may have new events, and have room for them. Skips locked ones.
SELECT webhooks.id, account_id, kinds, task_id, place FROM webhooks
JOIN accounts ON accounts.id = account_id
WHERE paused_at IS NULL AND suspended_at IS NULL
    AND EXISTS (
        SELECT FROM events
        WHERE events.account_id = webhooks.account_id AND events.place > webhooks.place
            AND events.place <= :newest_place
    )
    AND (
        SELECT count(*) FROM deliveries WHERE webhook_id = webhooks.id AND state = 'pending'
    ) <= :max_waiting
ORDER BY place LIMIT :limit
FOR UPDATE OF webhooks SKIP LOCKED

-- name: events_behind
SELECT id, place, kind, task_id, node_id FROM events
WHERE account_id = :webhook.account_id AND place > :webhook.place
    AND place <= :newest_place
ORDER BY place LIMIT :limit

-- name: add
INSERT INTO deliveries (id, webhook_id, event_id, place, lane, created_at, next_at)
SELECT id, :webhook_id, event_id, place, lane, :now, :now
FROM unnest(:delivery_ids::text[], :event_ids::bigint[], :places::bigint[], :lanes::text[])
    AS delivery (id, event_id, place, lane)

-- name: move_on
UPDATE webhooks SET place = :place WHERE id = :webhook_id

-- name: claim
-- From each due webhook, as many as it has room for: one, while it fails. Of a lane only the first
-- unfinished one. Deliveries with fewer tries go first, so that one event that is never accepted
-- does not block the others.
WITH taken AS (
    -- Slots by account, as counted by the sender: rows may be deleted while a delivery is in
    -- progress.
    SELECT * FROM unnest(:account_ids::text[], :taken_places::bigint[])
    AS taken (account_id, places)
), ready AS (
    SELECT webhooks.id, account_id,
        CASE WHEN failures = 0 THEN :places.of_webhook::bigint ELSE 1 END - (
        SELECT count(*) FROM deliveries
        WHERE webhook_id = webhooks.id AND state = 'pending' AND claimed_until > :now
    ) AS room
    FROM webhooks JOIN accounts ON accounts.id = account_id
    WHERE paused_at IS NULL AND suspended_at IS NULL AND next_at <= :now
), found AS (
    SELECT found.id, found.next_at, coalesce(places, 0) + row_number() OVER (
        PARTITION BY account_id ORDER BY found.next_at, found.id
    ) AS place_of_account
    FROM ready LEFT JOIN taken USING (account_id) CROSS JOIN LATERAL (
        SELECT mine.id, mine.next_at FROM deliveries AS mine
        WHERE mine.webhook_id = ready.id AND mine.state = 'pending' AND mine.next_at <= :now
            AND coalesce(mine.claimed_until <= :now, true)
            AND NOT EXISTS (
                SELECT FROM deliveries AS earlier
                WHERE earlier.webhook_id = mine.webhook_id AND earlier.lane = mine.lane
                    AND earlier.state = 'pending' AND earlier.place < mine.place
            )
        ORDER BY mine.tries, mine.place LIMIT greatest(ready.room, 0)
    ) AS found
), chosen AS (
    -- The account with the fewest slots gets the next.
    SELECT id FROM found WHERE place_of_account <= :places.of_account
    ORDER BY place_of_account, next_at, id LIMIT :places.free
)
UPDATE deliveries SET tries = deliveries.tries + 1,
    claimed_until = :now::timestamptz + :claim_duration::interval,
    first_tried_at = coalesce(deliveries.first_tried_at, :now)
FROM chosen, webhooks, events LEFT JOIN tasks ON tasks.id = events.task_id
WHERE deliveries.id = chosen.id AND webhooks.id = deliveries.webhook_id
    AND events.id = deliveries.event_id
    -- Checked again after the lock: another instance may have been faster.
    AND deliveries.state = 'pending' AND coalesce(deliveries.claimed_until <= :now, true)
RETURNING deliveries.id AS delivery_id, deliveries.webhook_id, webhooks.account_id, deliveries.tries,
    deliveries.first_tried_at,
    webhooks.sealed_destination, webhooks.old_secret_until,
    events.id, events.kind, events.created_at, events.task_id, events.node_id, events.data,
    tasks.name AS task_name

-- name: lock_claimed
-- Still the same try, with its webhook. In this order everywhere: the webhook first.
SELECT webhooks.id AS webhook_id, account_id, webhooks.name, failures, failing_since, succeeded_at
FROM webhooks
WHERE webhooks.id = :delivery.webhook_id AND EXISTS (
    SELECT FROM deliveries
    WHERE deliveries.id = :delivery.id AND state = 'pending' AND tries = :delivery.number
)
FOR UPDATE

-- name: note
INSERT INTO delivery_tries (delivery_id, number, at, seconds, status, detail)
VALUES (:delivery_id, :delivery_try.number, :delivery_try.at, :delivery_try.seconds,
    :delivery_try.status, :delivery_try.detail)
ON CONFLICT DO NOTHING

-- name: finish
UPDATE deliveries SET state = :state, ended_at = :now, claimed_until = NULL
WHERE id = :delivery.id AND tries = :delivery.number AND state = 'pending'
RETURNING id

-- name: try_later
UPDATE deliveries SET next_at = :next_at, claimed_until = NULL
WHERE id = :delivery.id AND tries = :delivery.number AND state = 'pending'
RETURNING id

-- name: put_back
-- Nothing was sent: as if it had not been claimed.
UPDATE deliveries SET next_at = :next_at, claimed_until = NULL, tries = tries - 1,
    first_tried_at = CASE WHEN tries > 1 THEN first_tried_at END
WHERE id = :delivery.id AND tries = :delivery.number AND state = 'pending'

-- name: newest
SELECT deliveries.id, deliveries.state, deliveries.created_at, tries, ended_at,
    greatest(deliveries.next_at, webhooks.next_at) AS next_at,
    paused_at IS NULL AS is_sent,
    events.id AS event_number, events.created_at AS event_at, events.kind, events.task_id
FROM deliveries JOIN webhooks ON webhooks.id = webhook_id JOIN events ON events.id = event_id
WHERE webhook_id = :webhook_id AND deliveries.id < :before_id
ORDER BY deliveries.id DESC LIMIT :limit

-- name: get
SELECT deliveries.id, deliveries.state, deliveries.created_at, tries, ended_at,
    greatest(deliveries.next_at, webhooks.next_at) AS next_at,
    paused_at IS NULL AS is_sent,
    events.id AS event_number, events.created_at AS event_at, events.kind, events.task_id
FROM deliveries JOIN webhooks ON webhooks.id = webhook_id JOIN events ON events.id = event_id
WHERE deliveries.id = :delivery_id AND webhook_id = :webhook_id

-- name: tries
-- The newest few of each.
SELECT found.* FROM unnest(:delivery_ids::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT * FROM delivery_tries WHERE delivery_id = asked.id ORDER BY number DESC LIMIT :limit
) AS found
ORDER BY delivery_id, number DESC

-- name: hurry
-- The waiting delivery of the same event, whichever was named.
UPDATE deliveries SET next_at = :now WHERE id = (
    SELECT id FROM deliveries
    WHERE webhook_id = :webhook_id AND state = 'pending'
        AND event_id = (SELECT event_id FROM deliveries WHERE id = :delivery_id)
    ORDER BY id LIMIT 1
)
RETURNING id

-- name: hurry_webhook
UPDATE webhooks SET next_at = least(next_at, :now) WHERE id = :webhook_id

-- name: again
-- Ignores the order of its lane: its turn was before. Not if too many are queued.
INSERT INTO deliveries (id, webhook_id, event_id, place, lane, created_at, next_at)
SELECT :new_delivery_id, webhook_id, event_id, place, :new_delivery_id, :now, :now FROM deliveries
WHERE id = :delivery_id AND webhook_id = :webhook_id
    AND (SELECT count(*) FROM deliveries WHERE webhook_id = :webhook_id AND state = 'pending')
        < :max_waiting
RETURNING id

-- name: forget
WITH gone AS (
    DELETE FROM deliveries WHERE id IN (
        SELECT id FROM deliveries
        WHERE state <> 'pending' AND ended_at < now() - :older_than::interval
        ORDER BY ended_at LIMIT :limit
    ) RETURNING id
)
SELECT count(*) FROM gone
