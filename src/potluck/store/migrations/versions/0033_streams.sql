-- Call streams: arrays of calls that grow while they run. New items go straight to an attempt that
-- holds a standing lease, in the transaction that appends them.
ALTER TABLE tasks
    ADD COLUMN is_stream  boolean NOT NULL DEFAULT false,
    -- Of a stream that takes items: until when, if none is appended before. NULL once it is closed.
    ADD COLUMN open_until timestamptz,
    -- Of a stream: items that were cancelled, beside those that succeeded, failed, or are not done.
    ADD COLUMN cancelled  int4multirange NOT NULL DEFAULT '{}';
CREATE INDEX tasks_open_until ON tasks (open_until) WHERE open_until IS NOT NULL;
CREATE INDEX tasks_streams ON tasks (id) WHERE is_stream AND finished_at IS NULL;

ALTER TABLE attempts
    -- Of a stream: its node ends it once its items are done, and gets no more.
    ADD COLUMN released_at  timestamptz,
    -- Since when it has nothing to do, and for how long it had nothing before: nobody pays for that.
    ADD COLUMN idle_since   timestamptz,
    ADD COLUMN idle_seconds double precision NOT NULL DEFAULT 0;

-- The inputs that were appended, as they came. By their end, so that those of an item are found
-- without reading the earlier ones.
CREATE TABLE item_batches (
    task_id       text COLLATE "C" NOT NULL REFERENCES tasks,
    start         integer NOT NULL CHECK (start >= 0),
    "end"         integer NOT NULL CHECK ("end" > start),
    digest        bytea NOT NULL,
    sealed_inputs bytea NOT NULL,
    sealed_by     bytea GENERATED ALWAYS AS (substring(sealed_inputs FROM 2 FOR 4)) STORED,
    PRIMARY KEY (task_id, "end")
);
-- Ciphertext does not get smaller, so nobody need try.
ALTER TABLE item_batches ALTER COLUMN sealed_inputs SET STORAGE EXTERNAL;
CREATE INDEX item_batches_by_key ON item_batches (sealed_by) WHERE sealed_by IS NOT NULL;

-- What is known of a stream once its task is locked. Volatile, so that it sees what was committed
-- while the caller waited for the lock.
CREATE FUNCTION stream_facts(wanted_task text, wanted_attempt text) RETURNS TABLE (
    is_stream boolean, is_open boolean, cancelled int4multirange, idle_seconds double precision)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    SELECT tasks.is_stream, tasks.open_until IS NOT NULL, tasks.cancelled, attempts.idle_seconds
        + coalesce(extract(epoch FROM now() - attempts.idle_since)::double precision, 0)
    FROM tasks, attempts WHERE tasks.id = wanted_task AND attempts.id = wanted_attempt;
END $$;

-- Grants `waiting` items of a locked stream to its standing attempts, those with the least to do
-- first, and returns the rest. A guard for each: its lease, its node, that node's key, owner and
-- devices, the accounts of both, the hold, and that nobody else waits for it. An attempt has at most
-- `ahead_seconds` of work before it, and gets only items after those that it had: so its node knows
-- by one number which ones are new, and an item that failed there is tried elsewhere. One that has
-- nothing to do and may have none of these items is released.
CREATE FUNCTION grant_items(
    wanted text, waiting int4multirange, ahead_seconds double precision,
    funded_seconds double precision, OUT left_over int4multirange, OUT node_ids text[])
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    stream record;
    worker record;
    part int4range;
    taken int4multirange;
    room integer;
BEGIN
    left_over := waiting;
    node_ids := '{}';
    SELECT items_seconds / nullif(items_succeeded + items_failed, 0) AS item_seconds,
        coalesce((limits ->> 'run_seconds')::double precision, 21600) AS run_seconds
    INTO stream
    FROM tasks WHERE id = wanted AND coalesce(not_before <= now(), true);
    IF NOT FOUND OR isempty(waiting) THEN
        RETURN;
    END IF;
    FOR worker IN
        SELECT attempts.id, attempts.node_id, attempts.items, attempts.released_at,
            (SELECT coalesce(sum(upper(each) - lower(each)), 0)
                FROM unnest(remaining) AS each)::integer AS unfinished,
            -- How many items the hold covers, besides the work that was not charged yet.
            CASE WHEN price_micro_per_hour = 0 THEN 2147483647 ELSE least(2147483647, greatest(0, (
                hold_micro + attempts.charge_micro
                - price_micro_per_hour * attempts.items_seconds / 3600)
                / (price_micro_per_hour * least(stream.run_seconds, funded_seconds) / 3600)))
            END::integer AS covered,
            price_micro_per_hour = 0 OR hold_micro + attempts.charge_micro
                - price_micro_per_hour * attempts.items_seconds / 3600
                >= price_micro_per_hour * funded_seconds / 3600 AS is_covered
        FROM attempts
        JOIN nodes ON nodes.id = attempts.node_id
        JOIN accounts AS provider ON provider.id = attempts.provider_id
        JOIN accounts AS consumer ON consumer.id = attempts.consumer_id
        WHERE attempts.task_id = wanted AND attempts.finished_at IS NULL
            AND attempts.state = 'running' AND attempts.released_at IS NULL
            AND lease_expires_at > clock_timestamp() AND unfunded_at IS NULL
            AND nodes.state = 'online' AND cordoned_at IS NULL
            AND provider.suspended_at IS NULL AND consumer.suspended_at IS NULL
            AND NOT EXISTS (SELECT FROM node_keys WHERE node_keys.id = nodes.node_key_id
                AND (revoked_at IS NOT NULL OR expires_at <= now()))
            AND NOT EXISTS (SELECT FROM attempt_devices JOIN devices ON devices.id = device_id
                WHERE attempt_id = attempts.id AND NOT (
                    is_present AND standing = 'bound' AND availability = 'available'))
        ORDER BY unfinished, attempts.id
        FOR UPDATE OF attempts
    LOOP
        EXIT WHEN isempty(left_over);
        -- One at a time, until it is known how long one takes.
        room := coalesce(greatest(1, least(10000, ceil(
            ahead_seconds / greatest(stream.item_seconds, 1e-6)))), 1)::integer
            - worker.unfinished;
        IF NOT worker.is_covered THEN
            room := least(room, worker.covered - worker.unfinished);
        END IF;
        taken := '{}';
        FOR part IN
            SELECT each FROM unnest(
                left_over * int4multirange(int4range(upper(worker.items), NULL))) AS each
        LOOP
            EXIT WHEN room <= 0;
            part := int4range(lower(part), least(upper(part), lower(part) + room));
            taken := taken + int4multirange(part);
            room := room - (upper(part) - lower(part));
        END LOOP;
        IF isempty(taken) THEN
            CONTINUE WHEN worker.unfinished > 0;
            UPDATE attempts SET released_at = now() WHERE id = worker.id;
        ELSE
            UPDATE attempts SET
                remaining = remaining + taken, items = int4range(lower(items), upper(taken)),
                -- Its lease may be renewed for as long as these items may take.
                run_seconds_limit = greatest(
                    stream.run_seconds * (upper(taken) - lower(items)),
                    extract(epoch FROM now() - started_at) + stream.run_seconds
                        * (worker.unfinished + 1)),
                idle_seconds = attempts.idle_seconds + coalesce(
                    extract(epoch FROM now() - idle_since)::double precision, 0),
                idle_since = NULL,
                -- From here on it has not been silent: it had nothing to tell.
                progressed_at = CASE WHEN worker.unfinished = 0 THEN now() ELSE progressed_at END
            WHERE id = worker.id;
            left_over := left_over - taken;
        END IF;
        node_ids := node_ids || worker.node_id;
    END LOOP;
END $$;

-- Appends items to a stream: `appended`, or why not. The same bytes at the same place are `same`.
CREATE FUNCTION append_items(
    wanted text, owner text, first_item integer, number integer, inputs_digest bytea,
    inputs bytea, most_items integer, idle_seconds double precision,
    longest_seconds double precision, ahead_seconds double precision,
    funded_seconds double precision,
    OUT outcome text, OUT item_count integer, OUT has_pending boolean, OUT node_ids text[])
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    stream record;
    granted record;
BEGIN
    SELECT items, pending, state, open_until, created_at INTO stream
    FROM tasks WHERE id = wanted AND account_id = owner AND is_stream FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 'missing';
        RETURN;
    END IF;
    item_count := stream.items;
    IF first_item < stream.items THEN
        outcome := CASE WHEN EXISTS (
            SELECT FROM item_batches WHERE task_id = wanted AND start = first_item
                AND "end" = first_item + number AND digest = inputs_digest)
            THEN 'same' ELSE 'other' END;
    ELSIF coalesce(stream.open_until <= now(), true)
            OR stream.state NOT IN ('queued', 'assigned', 'running')
            OR stream.created_at + make_interval(secs => longest_seconds) <= now() THEN
        outcome := 'closed';
    ELSIF first_item > stream.items THEN
        outcome := 'gap';
    ELSIF stream.items + number > most_items THEN
        outcome := 'full';
    ELSE
        INSERT INTO item_batches (task_id, start, "end", digest, sealed_inputs)
        VALUES (wanted, first_item, first_item + number, inputs_digest, inputs);
        SELECT * INTO granted FROM grant_items(
            wanted, stream.pending + int4multirange(int4range(first_item, first_item + number)),
            ahead_seconds, funded_seconds);
        UPDATE tasks SET items = first_item + number, pending = granted.left_over,
            -- Rarely, since it is in an index.
            open_until = CASE WHEN open_until < now() + make_interval(secs => 0.8 * idle_seconds)
                THEN now() + make_interval(secs => idle_seconds) ELSE open_until END,
            updated_at = now(), version = version + 1
        WHERE id = wanted;
        outcome := 'appended';
        item_count := first_item + number;
        has_pending := NOT isempty(granted.left_over);
        node_ids := granted.node_ids;
    END IF;
END $$;

-- Accepts items of a stream that all succeeded, if their attempt runs and has all of them to do; in
-- any other case nothing changes, `task_id` is NULL, and the report is taken as that of an array.
CREATE FUNCTION accept_items(
    wanted text, reporter text, starts integer[], ends integer[], seconds double precision,
    sealed_values bytea[], sizes bigint[], ahead_seconds double precision,
    funded_seconds double precision,
    OUT of_task text, OUT has_pending boolean, OUT node_ids text[])
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    done int4multirange;
    done_count integer;
    stream record;
    attempt record;
    granted record;
    counted double precision;
BEGIN
    SELECT tasks.id, pending, result_count INTO stream
    FROM tasks WHERE id = (
        SELECT task_id FROM attempts WHERE attempts.id = wanted AND node_id = reporter)
        AND is_stream AND state = 'running'
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT range_agg(int4range(run_start, run_end)), sum(run_end - run_start) INTO done, done_count
    FROM unnest(starts, ends) AS run (run_start, run_end);
    SELECT remaining, attempts.idle_seconds, items_seconds, fetched_at, assigned_at INTO attempt
    FROM attempts
    WHERE id = wanted AND finished_at IS NULL AND state = 'running' AND remaining @> done
        AND done_count = (SELECT sum(upper(each) - lower(each)) FROM unnest(done) AS each)
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- Items run one after the other, and not while there was nothing to do.
    counted := greatest(0, least(seconds, extract(epoch FROM
        now() - coalesce(attempt.fetched_at, attempt.assigned_at))
        - attempt.idle_seconds - attempt.items_seconds));
    UPDATE attempts SET remaining = remaining - done, items_done = items_done + done_count,
        items_seconds = items_seconds + counted, progressed_at = now(),
        idle_since = CASE WHEN isempty(remaining - done) THEN now() END
    WHERE id = wanted;
    UPDATE tasks SET items_succeeded = items_succeeded + done_count,
        items_seconds = items_seconds + counted, failures = 0,
        result_count = result_count + cardinality(starts),
        updated_at = now(), version = version + 1
    WHERE id = stream.id;
    INSERT INTO results (task_id, number, attempt_id, start, "end", is_error, sealed_value, size_bytes)
    SELECT stream.id, stream.result_count + place, wanted, run_start, run_end, false, value, size
    FROM unnest(starts, ends, sealed_values, sizes) WITH ORDINALITY
        AS run (run_start, run_end, value, size, place);
    of_task := stream.id;
    has_pending := false;
    node_ids := '{}';
    IF NOT isempty(stream.pending) THEN
        SELECT * INTO granted FROM grant_items(
            stream.id, stream.pending, ahead_seconds, funded_seconds);
        node_ids := granted.node_ids;
        has_pending := NOT isempty(granted.left_over);
        IF granted.left_over <> stream.pending THEN
            UPDATE tasks SET pending = granted.left_over WHERE id = stream.id;
        END IF;
    END IF;
END $$;

-- Grants what waits of a stream to its standing attempts; the nodes that have news.
CREATE FUNCTION refill_stream(
    wanted text, ahead_seconds double precision, funded_seconds double precision)
RETURNS text[]
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    waiting int4multirange;
    granted record;
BEGIN
    SELECT pending INTO waiting FROM tasks
    WHERE id = wanted AND is_stream AND state = 'running' AND NOT isempty(pending) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    SELECT * INTO granted FROM grant_items(wanted, waiting, ahead_seconds, funded_seconds);
    IF granted.left_over <> waiting THEN
        UPDATE tasks SET pending = granted.left_over WHERE id = wanted;
    END IF;
    RETURN granted.node_ids;
END $$;
