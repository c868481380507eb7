-- The place of an event in the order in which it is told. Ids are given when a row is written and
-- seen when it is committed, so who reads on behind the newest id misses what was written before
-- and is committed after. The leader places what is committed, one batch after the other, by the
-- lock of a single row: whoever sees a place sees all before it.
ALTER TABLE events ADD COLUMN place bigint;
UPDATE events SET place = id;
DROP INDEX events_undelivered;
DROP INDEX events_of_account;
-- What is placed is looked after; `told` of the head says up to where that was.
ALTER TABLE events DROP COLUMN delivered_at;

CREATE INDEX events_unplaced ON events (id) WHERE place IS NULL;
CREATE UNIQUE INDEX events_placed ON events (place) WHERE place IS NOT NULL;
CREATE INDEX events_of_account ON events (account_id, place) WHERE place IS NOT NULL;
CREATE INDEX events_of_task ON events (task_id, place) WHERE place IS NOT NULL;

CREATE TABLE event_head (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    place   bigint NOT NULL DEFAULT 0,
    told    bigint NOT NULL DEFAULT 0
);
INSERT INTO event_head (place, told)
SELECT coalesce(max(place), 0), coalesce(max(place), 0) FROM events;

-- Up to which place an account's events are no longer kept, so that a reader who comes late is told
-- that something may be missing. Nobody whose events were all too old before has a row.
CREATE TABLE forgotten_events (
    account_id text COLLATE "C" PRIMARY KEY REFERENCES accounts,
    place      bigint NOT NULL
);
