-- An event gets its place when it is inserted, and is not updated afterwards. Transactions commit in
-- any order, so each one that adds events holds a lock whose key is below all places that it takes.
-- A reader stops at the lowest of these keys: whatever is committed later comes after it.
CREATE SEQUENCE event_places;
SELECT setval('event_places', greatest(place, 1)) FROM event_head;

-- While servers run that do not know this, the leader places events after they are committed.
ALTER TABLE event_head ADD COLUMN is_placed_at_insert boolean NOT NULL DEFAULT false;

-- Writers of events of one task hold the task's row, so its events are in the order of their causes.
CREATE FUNCTION take_event_place() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('potluck.event_writer', true)
        IS DISTINCT FROM pg_current_xact_id()::text
    THEN
        -- Shared: two that begin at once have the same key. It is taken before the first place.
        PERFORM pg_advisory_xact_lock_shared(
            1886349422, (last_value & 2147483647)::integer) FROM event_places;
        PERFORM set_config('potluck.event_writer', pg_current_xact_id()::text, true);
    END IF;
    RETURN nextval('event_places');
END $$;

CREATE FUNCTION new_event_place() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT CASE WHEN is_placed_at_insert THEN take_event_place() END FROM event_head);
END $$;
ALTER TABLE events ALTER COLUMN place SET DEFAULT new_event_place();

-- Up to which place nothing can be added any more, for a statement that begins after this one.
CREATE FUNCTION newest_event_place() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    taken bigint;
    open_after bigint;
BEGIN
    -- Before the locks: what is taken later has a higher place.
    SELECT last_value INTO taken FROM event_places;
    SELECT min(taken - ((taken - objid::bigint) & 2147483647)) INTO open_after
    FROM pg_locks
    WHERE locktype = 'advisory' AND classid = 1886349422 AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN (SELECT least(CASE WHEN is_placed_at_insert THEN taken ELSE place END, open_after)
        FROM event_head);
END $$;

-- Of the events after a place, those that are settled, in their order.
CREATE FUNCTION settled_events(after_place bigint, most bigint) RETURNS SETOF events
LANGUAGE plpgsql VOLATILE ROWS 10 AS $$
DECLARE
    settled bigint := newest_event_place();
BEGIN
    RETURN QUERY SELECT * FROM events WHERE place > after_place AND place <= settled
        ORDER BY place LIMIT most;
END $$;

-- Places events that were inserted without a place, in the order of their ids.
CREATE FUNCTION place_events(most bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    head event_head;
    event record;
BEGIN
    SELECT * INTO head FROM event_head FOR UPDATE;
    FOR event IN SELECT id FROM events WHERE place IS NULL ORDER BY id LIMIT most LOOP
        head.place := CASE WHEN head.is_placed_at_insert THEN take_event_place()
            ELSE head.place + 1 END;
        UPDATE events SET place = head.place WHERE id = event.id;
    END LOOP;
    UPDATE event_head SET place = head.place;
END $$;

-- Whether events get their place when they are inserted, from now on.
CREATE FUNCTION place_events_at_insert(wanted boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    head event_head;
BEGIN
    SELECT * INTO head FROM event_head FOR UPDATE;
    IF wanted AND NOT head.is_placed_at_insert THEN
        PERFORM setval('event_places', greatest(last_value, head.place)) FROM event_places;
    ELSIF head.is_placed_at_insert AND NOT wanted THEN
        -- Beyond those that transactions are about to take.
        head.place := (SELECT last_value + 1000 FROM event_places);
    END IF;
    UPDATE event_head SET is_placed_at_insert = wanted, place = head.place;
END $$;

-- For a database whose rows were loaded without the value of the sequence.
CREATE FUNCTION continue_event_places() RETURNS void LANGUAGE sql AS $$
    SELECT setval('event_places', newest.place)
    FROM (
        SELECT greatest(event_head.place, (SELECT max(place) FROM events)) AS place FROM event_head
    ) AS newest, event_places
    WHERE newest.place > event_places.last_value
$$;
