-- Backups of this database, so that everyone sees how old the latest one is.
CREATE TABLE backups (
    id            text COLLATE "C" PRIMARY KEY,
    started_at    timestamptz NOT NULL DEFAULT now(),
    finished_at   timestamptz,
    -- Until then no bytes are removed: its snapshot may name them. Renewed while it runs.
    guarded_until timestamptz NOT NULL,
    is_encrypted  boolean NOT NULL,
    -- Once it is finished: its size, how much of that was new, and blobs that the store lacked.
    size_bytes    bigint,
    new_bytes     bigint,
    blobs         bigint,
    missing_blobs bigint
);
CREATE INDEX backups_finished ON backups (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX backups_running ON backups (guarded_until) WHERE finished_at IS NULL;

-- The servers that use this database. A row is written every few seconds.
CREATE TABLE instances (
    id         text COLLATE "C" PRIMARY KEY,
    version    text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now()
);

-- Before rows of a backup are loaded: they are as they were, so nothing is counted or moved again.
-- Rows that migrations have made are part of the backup too.
CREATE FUNCTION begin_restore() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    own record;
BEGIN
    FOR own IN SELECT oid::regclass AS name FROM pg_class
        WHERE relkind = 'r' AND relnamespace = current_schema()::text::regnamespace
    LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', own.name);
    END LOOP;
    DELETE FROM leader;
    DELETE FROM audit_head;
    DELETE FROM event_head;
END $$;

-- After they are loaded.
CREATE FUNCTION finish_restore() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    own record;
BEGIN
    FOR own IN SELECT oid::regclass AS name FROM pg_class
        WHERE relkind = 'r' AND relnamespace = current_schema()::text::regnamespace
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE TRIGGER USER', own.name);
    END LOOP;
    -- Beyond every number that clients may have seen after the backup.
    FOR own IN SELECT attrelid::regclass AS name, attname AS number FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid
        WHERE attidentity <> '' AND relkind = 'r'
            AND relnamespace = current_schema()::text::regnamespace
    LOOP
        EXECUTE format(
            'SELECT setval(pg_get_serial_sequence(%L, %L), coalesce(max(%I), 0) + 1000000) FROM %s',
            own.name, own.number, own.number, own.name);
    END LOOP;
    -- No instance leads, and the silence of the nodes since the backup is to be forgiven.
    UPDATE leader SET holder = '', term = term + 1, expires_at = least(expires_at, now()),
        forgiven_beat_at = NULL;
    -- Followers have seen later versions of unfinished tasks, and would not be told of these.
    UPDATE tasks SET version = version + 1000000 WHERE finished_at IS NULL;
    -- Their parts are not in a backup; clients begin again.
    DELETE FROM uploads;
END $$;
