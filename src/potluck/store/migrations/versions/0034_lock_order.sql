-- Several attempts are locked in the order of their ids, everywhere. The functions are as before but
-- for the locks.

-- As in 0031.
CREATE OR REPLACE FUNCTION lock_attempts_of_lines(wanted text[]) RETURNS TABLE (
    id text, task_id text, node_id text, state text, reason text, consumer_id text,
    provider_id text, price_micro_per_hour bigint, hold_micro bigint, charge_micro bigint,
    adoptions integer, slices integer, held_back_micro bigint, fee_basis_points integer,
    checkpoint_at timestamptz, is_unfunded boolean, run_seconds_limit double precision, started_at timestamptz,
    report_hash bytea, is_range boolean, remaining int4multirange, items_seconds double precision,
    is_reclaimable boolean, most_seconds double precision,
    task_state text, kind text, failures integer, losses integer, max_attempts integer,
    items integer, has_pending boolean, pending_pieces bigint, items_succeeded integer,
    items_failed integer, allow_failures integer,
    has_others boolean, other_nodes_lost bigint, item_losses bigint, uncounted_losses bigint,
    has_output boolean, was_in_contact boolean, has_failed_before boolean,
    taken_at timestamptz, now timestamptz, is_expired boolean, was_fetched boolean,
    is_available boolean, has_share boolean, has_heirs boolean)
-- Planned once, not for each number of attempts: planning takes longer than all the rest. It may have
-- been planned when the tables were small, and still goes by the indexes.
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tasks
    WHERE tasks.id IN (SELECT attempts.task_id FROM attempts WHERE attempts.id = ANY(wanted))
    ORDER BY tasks.id FOR UPDATE;
    -- Those that may take over a share are locked with the attempt that holds it, before any node.
    -- The second time with those that were added while the first one waited for the holder: they are
    -- newer than all others, and adding one locks the holder.
    FOR round IN 1 .. 2 LOOP
        PERFORM FROM attempts
        WHERE attempts.id = ANY(wanted)
            OR attempts.finished_at IS NULL AND NOT attempts.has_share AND attempts.line = ANY(ARRAY(
                SELECT coalesce(holder.line, holder.id) FROM attempts AS holder
                WHERE holder.id = ANY(wanted)))
        ORDER BY attempts.id FOR UPDATE OF attempts;
    END LOOP;
    RETURN QUERY
    SELECT attempts.id, attempts.task_id, attempts.node_id, attempts.state, attempts.reason,
        attempts.consumer_id, attempts.provider_id, attempts.price_micro_per_hour,
        attempts.hold_micro, attempts.charge_micro, attempts.adoptions, attempts.slices,
        attempts.held_back_micro, attempts.fee_basis_points, attempts.checkpoint_at,
        attempts.unfunded_at IS NOT NULL,
        attempts.run_seconds_limit, attempts.started_at, attempts.report_hash,
        attempts.items IS NOT NULL, attempts.remaining, attempts.items_seconds,
        attempts.is_reclaimable,
        -- That no item has accounted for. Of the whole attempt, and from when the node had it: after
        -- an outage many parts come at once, together with the word that it was started.
        extract(epoch FROM now() - coalesce(attempts.fetched_at, attempts.assigned_at))
            ::double precision - attempts.items_seconds,
        tasks.state, tasks.kind, tasks.failures, tasks.losses, tasks.max_attempts, tasks.items,
        NOT isempty(tasks.pending), (SELECT count(*) FROM unnest(tasks.pending)),
        tasks.items_succeeded, tasks.items_failed, tasks.allow_failures,
        EXISTS (SELECT FROM attempts AS other
            WHERE other.task_id = attempts.task_id AND other.finished_at IS NULL
                AND other.id <> attempts.id),
        (SELECT count(DISTINCT other.node_id) FROM attempts AS other
            WHERE other.task_id = attempts.task_id AND other.state = 'lost'
                AND other.reason NOT IN (
                    'withdrawn', 'node_left', 'reclaimed', 'declined', 'silence')
                AND other.node_id <> attempts.node_id
                AND lower(other.remaining) IS NOT DISTINCT FROM lower(attempts.remaining)),
        (SELECT count(*) FROM attempts AS other
            WHERE other.task_id = attempts.task_id AND other.state = 'lost'
                AND other.reason NOT IN (
                    'withdrawn', 'node_left', 'reclaimed', 'declined', 'silence')
                AND attempts.items IS NOT NULL
                AND lower(other.remaining) = lower(attempts.remaining)),
        (SELECT count(*) FROM attempts AS other
            WHERE other.task_id = attempts.task_id AND other.state = 'lost'
                AND other.reason IN ('withdrawn', 'node_left', 'reclaimed', 'declined', 'silence')
                AND lower(other.remaining) IS NOT DISTINCT FROM lower(attempts.remaining)),
        attempts.log_bytes > 0 OR attempts.items_done > 0
            OR EXISTS (SELECT FROM task_blobs WHERE task_blobs.attempt_id = attempts.id),
        -- NULL if the task sets no limit.
        coalesce(attempts.heard_since <= now() - own.silence_limit
            AND attempts.heard_at > now() - own.silence_limit, false),
        tasks.failures > 0 OR tasks.retry_of IS NOT NULL,
        now(), clock_timestamp(), attempts.lease_expires_at <= clock_timestamp(),
        attempts.fetched_at IS NOT NULL,
        NOT EXISTS (SELECT FROM attempt_devices JOIN devices ON devices.id = device_id
            WHERE attempt_id = attempts.id AND availability <> 'available'),
        attempts.has_share,
        attempts.has_share AND EXISTS (SELECT FROM attempts AS next
            WHERE next.line = coalesce(attempts.line, attempts.id)
                AND next.finished_at IS NULL AND NOT next.has_share)
    FROM attempts JOIN tasks ON tasks.id = attempts.task_id
    CROSS JOIN LATERAL (SELECT make_interval(
        secs => (tasks.limits ->> 'stop_after_silence_seconds')::double precision)) AS own (silence_limit)
    WHERE attempts.id = ANY(wanted)
    ORDER BY attempts.id;
END $$;

-- Grants `waiting` items of a locked stream to its standing attempts, those with the least to do
-- first, and returns the rest. A guard for each: its lease, its node, that node's key, owner and
-- devices, the accounts of both, the hold, and that nobody else waits for it. An attempt has at most
-- `ahead_seconds` of work before it, and gets only items after those that it had: so its node knows
-- by one number which ones are new, and an item that failed there is tried elsewhere. One that has
-- nothing to do and may have none of these items is released.
CREATE OR REPLACE FUNCTION grant_items(
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
    -- In one order with heartbeats, which lock the attempts of a node.
    PERFORM FROM attempts WHERE task_id = wanted AND finished_at IS NULL ORDER BY id FOR UPDATE;
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

-- Accepts items of a stream that all succeeded, if their attempt runs and has all of them to do; in
-- any other case nothing changes, `task_id` is NULL, and the report is taken as that of an array.
CREATE OR REPLACE FUNCTION accept_items(
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
    IF NOT isempty(stream.pending) THEN
        -- They may get some of it: locked in one order with heartbeats.
        PERFORM FROM attempts WHERE task_id = stream.id AND finished_at IS NULL
        ORDER BY id FOR UPDATE;
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
