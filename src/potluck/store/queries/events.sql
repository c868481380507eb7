-- name: append
INSERT INTO events (account_id, task_id, node_id, kind, data)
SELECT account_id, task_id, node_id, kind, data
FROM unnest(:events[].account_id::text[], :events[].task_id::text[], :events[].node_id::text[],
    :events[].kind::text[], :events[].data::jsonb[])
    WITH ORDINALITY AS event (account_id, task_id, node_id, kind, data, place)
ORDER BY place

-- name: place
-- Gives what has been committed its place, and notes up to where all was told. Of one task ids are
-- in the order in which things happened: who writes about it holds its row. So the older id goes
-- first, and whatever happened before is placed before. Two at once come one after the other, by
-- the head's row; what the first has placed is not placed again, and a few numbers are left out.
WITH unplaced AS MATERIALIZED (
    SELECT id FROM events WHERE place IS NULL ORDER BY id LIMIT :limit
), head AS (
    UPDATE event_head SET
        place = place + (SELECT count(*) FROM unplaced),
        told = greatest(told, :told)
    -- Nothing is written where there is nothing to write.
    WHERE told < :told OR EXISTS (SELECT FROM unplaced)
    RETURNING place - (SELECT count(*) FROM unplaced) AS before
), numbered AS (
    SELECT id, row_number() OVER (ORDER BY id) AS number FROM unplaced
)
UPDATE events SET place = head.before + numbered.number
FROM head, numbered
WHERE events.id = numbered.id AND events.place IS NULL
RETURNING events.place, account_id, task_id, node_id, kind

-- name: untold
-- What was placed and perhaps never told: whoever placed it may have ended in between.
SELECT place, account_id, task_id, node_id, kind FROM events
WHERE place > (SELECT told FROM event_head) ORDER BY place LIMIT :limit
