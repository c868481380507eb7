-- name: append
INSERT INTO events (account_id, task_id, node_id, kind, data)
SELECT account_id, task_id, node_id, kind, data
FROM unnest(:events[].account_id::text[], :events[].task_id::text[], :events[].node_id::text[],
    :events[].kind::text[], :events[].data::jsonb[])
    WITH ORDINALITY AS event (account_id, task_id, node_id, kind, data, place)
ORDER BY place

-- name: unannounced
-- The first events after those that were announced; there is always a row, without an event its place
-- is NULL. Whatever is visible and not settled waits for a transaction that may still precede it.
SELECT head.*, found.*
FROM (
    SELECT greatest(told, :announced::bigint) AS announced,
        is_placed_at_insert = EXISTS (
            SELECT FROM instances
            WHERE version <> :version AND seen_at > now() - interval '2 minutes'
        ) AS is_mode_outdated,
        EXISTS (SELECT FROM events WHERE place IS NULL) AS has_unplaced,
        (SELECT max(place) FROM events) AS newest
    -- One row, which PostgreSQL does not know of a table that was never analysed: it would compile the
    -- statement, which takes half a second.
    FROM event_head LIMIT 1
) AS head
LEFT JOIN LATERAL (
    SELECT event.place, account_id, task_id, node_id, kind, data ->> 'state' AS state,
        data ->> 'reason' AS reason, data ? 'attempt_id' AS is_of_attempt,
        -- Only of the first start, which has the time of its event, and of a task that waited for
        -- no other one. From when it may start, if that is later than its submission.
        (
            SELECT extract(epoch FROM started_at - greatest(tasks.created_at, not_before))::float8
            FROM tasks
            WHERE event.kind = 'task.running' AND tasks.id = event.task_id
                AND started_at = event.created_at AND after_ids = '{}'
        ) AS start_seconds,
        EXISTS (
            SELECT FROM webhooks WHERE webhooks.account_id = event.account_id AND paused_at IS NULL
        ) AS has_webhook
    FROM settled_events(head.announced, :limit) AS event
) AS found ON true
ORDER BY found.place

-- name: record_announced
UPDATE event_head SET told = :announced WHERE told < :announced

-- name: change_mode
-- Events get their place when they are inserted, unless an instance of another version runs.
SELECT place_events_at_insert(NOT EXISTS (
    SELECT FROM instances WHERE version <> :version AND seen_at > now() - interval '2 minutes'))

-- name: place
SELECT place_events(:limit)
