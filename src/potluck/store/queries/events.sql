-- name: append
INSERT INTO events (account_id, task_id, node_id, kind, data)
SELECT account_id, task_id, node_id, kind, data
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::jsonb[])
    WITH ORDINALITY AS event (account_id, task_id, node_id, kind, data, place)
ORDER BY place

-- name: undelivered
-- Marks those that have been delivered since this was last asked, and answers what is next. Nobody
-- waits until the mark is on the disk: without it they would be delivered again.
WITH unhurried AS (
    SELECT set_config('synchronous_commit', 'off', true)
), marked AS (
    UPDATE events SET delivered_at = now()
    WHERE id = ANY($2::bigint[]) AND (SELECT count(*) FROM unhurried) = 1
)
SELECT id, account_id, task_id, node_id, kind FROM events
WHERE delivered_at IS NULL AND id <> ALL($2::bigint[])
ORDER BY id LIMIT $1
