-- name: append
INSERT INTO events (account_id, task_id, node_id, kind, data)
SELECT account_id, task_id, node_id, kind, data
FROM unnest(:events[].account_id::text[], :events[].task_id::text[], :events[].node_id::text[],
    :events[].kind::text[], :events[].data::jsonb[])
    WITH ORDINALITY AS event (account_id, task_id, node_id, kind, data, place)
ORDER BY place

-- name: place
-- Places committed events, and records up to where all are announced. Ids of one task are in the
-- order of events, since a writer holds the task's row. So the older id goes first, and causes are
-- placed before effects. Concurrent calls are serialised by the head's row; the second places
-- nothing twice, and a few numbers are skipped.
WITH unplaced AS MATERIALIZED (
    SELECT id FROM events WHERE place IS NULL ORDER BY id LIMIT :limit
), head AS (
    UPDATE event_head SET
        place = place + (SELECT count(*) FROM unplaced),
        told = greatest(told, :told)
    -- Writes nothing if there is nothing to record.
    WHERE told < :told OR EXISTS (SELECT FROM unplaced)
    RETURNING place - (SELECT count(*) FROM unplaced) AS before
), numbered AS (
    SELECT id, row_number() OVER (ORDER BY id) AS number FROM unplaced
)
UPDATE events SET place = head.before + numbered.number
FROM head, numbered
WHERE events.id = numbered.id AND events.place IS NULL
RETURNING events.place, account_id, task_id, node_id, kind,
    data ->> 'state' AS state, data ->> 'reason' AS reason, data ? 'attempt_id' AS is_of_attempt,
    -- Only of the first start, which has the time of its event, and of a task that waited for no
    -- other one. From when it may start, if that is later than its submission.
    (
        SELECT extract(epoch FROM started_at - greatest(tasks.created_at, not_before))::float8
        FROM tasks
        WHERE events.kind = 'task.running' AND tasks.id = events.task_id
            AND started_at = events.created_at AND after_ids = '{}'
    ) AS start_seconds

-- name: untold
-- Placed but perhaps not announced: the leader may have stopped in between.
SELECT place, account_id, task_id, node_id, kind FROM events
WHERE place > (SELECT told FROM event_head) ORDER BY place LIMIT :limit
