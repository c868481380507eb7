-- What a database of fault histories has besides the product's schema. It is made before the
-- migrations run, so that defaults, views and functions bind to this clock.

CREATE SCHEMA clock;

-- Wall time in microseconds. A sequence, because all sessions see its value at once.
CREATE UNLOGGED SEQUENCE clock.wall;

CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
    AS $$ SELECT to_timestamp(last_value / 1e6) FROM clock.wall $$;

-- The driver sets it when a transaction begins.
CREATE FUNCTION clock.now() RETURNS timestamptz STABLE LANGUAGE sql
    AS $$ SELECT current_setting('clock.now')::timestamptz $$;
CREATE FUNCTION clock.transaction_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
    AS $$ SELECT clock.now() $$;
CREATE FUNCTION clock.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
    AS $$ SELECT clock.now() $$;

-- Rows as they were and as they are, of transactions that nothing has checked yet.
CREATE UNLOGGED TABLE clock.row_changes (
    id     bigint GENERATED ALWAYS AS IDENTITY,
    name   text NOT NULL,
    before jsonb,
    after  jsonb
);

CREATE FUNCTION clock.note_row_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO clock.row_changes (name, before, after)
        VALUES (TG_TABLE_NAME, to_jsonb(OLD), to_jsonb(NEW));
    RETURN NULL;
END $$;

-- After the migrations: notes changes of these tables, and keeps the rows that a new database has.
CREATE PROCEDURE clock.prepare(watched text[]) LANGUAGE plpgsql AS $$
DECLARE
    relation regclass;
BEGIN
    FOREACH relation IN ARRAY watched::regclass[] LOOP
        EXECUTE format(
            'CREATE TRIGGER note_row_change AFTER INSERT OR UPDATE OR DELETE ON %s'
            ' FOR EACH ROW EXECUTE FUNCTION clock.note_row_change()', relation);
    END LOOP;
    FOR relation IN SELECT oid FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
    LOOP
        EXECUTE format('CREATE TABLE clock.%I AS TABLE %s', 'first_' || relation, relation);
    END LOOP;
END $$;

-- Leaves the database as `prepare` found it.
CREATE FUNCTION clock.reset() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    written text;
    relation text;
BEGIN
    SET LOCAL session_replication_role = replica;  -- some tables refuse it otherwise
    SELECT string_agg(oid::regclass::text, ', ') INTO written FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0;
    EXECUTE format('TRUNCATE %s RESTART IDENTITY CASCADE', written);
    FOR relation IN SELECT substr(relname, 7) FROM pg_class
        WHERE relnamespace = 'clock'::regnamespace AND relname LIKE 'first\_%'
        ORDER BY relname
    LOOP
        EXECUTE format('INSERT INTO public.%I SELECT * FROM clock.%I', relation, 'first_' || relation);
    END LOOP;
    SET LOCAL session_replication_role = origin;
    TRUNCATE clock.row_changes RESTART IDENTITY;
END $$;
