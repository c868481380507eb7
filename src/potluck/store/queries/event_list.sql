-- name: behind
-- The events after a place, and up to where this account's events are deleted. There is always a row;
-- without an event its place is NULL.
SELECT coalesce(forgotten_events.place, 0) AS forgotten, found.*
FROM (SELECT) AS one_row
LEFT JOIN forgotten_events ON forgotten_events.account_id = :account_id
LEFT JOIN LATERAL (
    SELECT events.id, events.place, events.kind, events.created_at, task_id, events.node_id, data,
        tasks.name AS task_name
    FROM events LEFT JOIN tasks ON tasks.id = task_id
    WHERE events.account_id = :account_id AND events.place > :after_place
        AND events.place <= :newest_place AND events.kind = ANY(:kinds)
    ORDER BY events.place LIMIT :limit
) AS found ON true
ORDER BY found.place

-- name: behind_of_task
-- The same by another index.
SELECT coalesce(forgotten_events.place, 0) AS forgotten, found.*
FROM (SELECT) AS one_row
LEFT JOIN forgotten_events ON forgotten_events.account_id = :account_id
LEFT JOIN LATERAL (
    SELECT events.id, events.place, events.kind, events.created_at, task_id, events.node_id, data,
        tasks.name AS task_name
    FROM events JOIN tasks ON tasks.id = task_id
    WHERE events.task_id = :task_id AND events.account_id = :account_id
        AND events.place > :after_place AND events.place <= :newest_place
        AND events.kind = ANY(:kinds)
    ORDER BY events.place LIMIT :limit
) AS found ON true
ORDER BY found.place

-- name: newest
SELECT events.id, events.place, events.kind, events.created_at, task_id, events.node_id, data,
    tasks.name AS task_name
FROM events LEFT JOIN tasks ON tasks.id = task_id
WHERE events.account_id = :account_id AND events.place < :before_place AND events.kind = ANY(:kinds)
ORDER BY events.place DESC LIMIT :limit

-- name: newest_of_task
SELECT events.id, events.place, events.kind, events.created_at, task_id, events.node_id, data,
    tasks.name AS task_name
FROM events JOIN tasks ON tasks.id = task_id
WHERE events.task_id = :task_id AND events.account_id = :account_id
    AND events.place < :before_place AND events.kind = ANY(:kinds)
ORDER BY events.place DESC LIMIT :limit

-- name: of_pool
-- For admins: the newest events of all accounts between two places, without the names of tasks.
SELECT events.id, events.place, events.kind, events.created_at, task_id, events.node_id, data,
    events.account_id, accounts.address, accounts.label, nodes.name AS node_name
FROM events JOIN accounts ON accounts.id = events.account_id
LEFT JOIN nodes ON nodes.id = events.node_id
WHERE events.place > :after_place AND events.place < :before_place AND events.kind = ANY(:kinds)
ORDER BY events.place DESC LIMIT :limit

-- name: head
-- Statements that begin later see all events up to this place.
SELECT newest_event_place()

-- name: forget
-- The oldest by id, which is nearly by age; the limit is recorded for each account.
WITH gone AS (
    DELETE FROM events WHERE id IN (
        SELECT id FROM (
            SELECT id, created_at, place FROM events ORDER BY id LIMIT :limit
        ) AS oldest
        WHERE created_at < now() - :older_than::interval AND place IS NOT NULL
    ) RETURNING account_id, place
), noted AS (
    INSERT INTO forgotten_events (account_id, place)
    SELECT account_id, max(place) FROM gone GROUP BY account_id
    ON CONFLICT (account_id) DO UPDATE
        SET place = greatest(forgotten_events.place, excluded.place)
)
SELECT count(*) FROM gone
