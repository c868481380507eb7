-- A writer that began between the two reads of this function has a key above the places taken. The key is
-- the low 31 bits of a place, so it was read as one that lies 2^31 back: the head went back to before the
-- first event, and readers got everything again. Such a writer only takes places above `taken`.
CREATE OR REPLACE FUNCTION newest_event_place() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    taken bigint;
    open_after bigint;
BEGIN
    -- Before the locks: what is taken later has a higher place.
    SELECT last_value INTO taken FROM event_places;
    SELECT min(taken - distance) INTO open_after
    FROM pg_locks, LATERAL (SELECT (taken - objid::bigint) & 2147483647 AS distance) AS behind
    WHERE locktype = 'advisory' AND classid = 1886349422 AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND distance < 1073741824;
    RETURN (SELECT least(CASE WHEN is_placed_at_insert THEN taken ELSE place END, open_after)
        FROM event_head);
END $$;
