-- Whether a snapshot has not seen the transaction that changed a row. Both halves: by the first an
-- index finds the few that may be. Plain enough for PostgreSQL to put it in the place of its call.
CREATE FUNCTION is_news(changed xid8, seen pg_snapshot) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN changed >= pg_snapshot_xmin(seen) AND NOT pg_visible_in_snapshot(changed, seen);

-- Arrays teach how long their items take, as single tasks do.
CREATE OR REPLACE VIEW scheduled_tasks AS
SELECT id, account_id, priority, name, requirements, limits, is_waiting, changed,
    expected_seconds,
    -- The first pieces: what a script leaves that fails now and then is scattered.
    CASE WHEN items IS NULL THEN pending ELSE coalesce((
        SELECT range_agg(part) FROM (SELECT part FROM unnest(pending) AS part LIMIT 1000) AS first
    ), '{}') END AS pending,
    items_succeeded + items_failed AS items_done, items_seconds,
    extract(epoch FROM created_at)::double precision AS submitted_at,
    extract(epoch FROM not_before)::double precision AS ready_at,
    -- Ranges that fail as a whole too often fail the array, once nobody is at work on it.
    waits_for > 0 OR (items IS NOT NULL AND state <> 'queued' AND failures >= greatest(
        max_attempts, CASE WHEN items_succeeded + items_failed > 0 THEN 3 END)) AS has_to_wait,
    -- About to end: it was not started in time.
    started_at IS NULL AND coalesce(start_before <= now(), false) AS is_overdue,
    -- To the first version nothing has happened yet; of an array each item is looked after by itself.
    CASE WHEN version > 1 AND items IS NULL THEN ARRAY(
        SELECT DISTINCT node_id FROM attempts
        WHERE task_id = tasks.id AND attempts.state IN ('failed', 'lost'))
    END AS failed_on,
    -- What a task of this name can be expected to take; of an array, each item.
    CASE WHEN state <> 'succeeded' THEN NULL
        WHEN items IS NOT NULL THEN items_seconds / nullif(items_succeeded + items_failed, 0)
        WHEN failures + losses = 0
            THEN extract(epoch FROM finished_at - started_at)::double precision
    END AS took_seconds,
    kind,
    items IS NOT NULL AS is_array
FROM tasks;
