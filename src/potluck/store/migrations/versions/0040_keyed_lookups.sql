-- The end of an attempt read all shares and attempts that ever were, if it was planned while the tables
-- were small: each is looked up by its key now.

-- The shares of an attempt, by the index whatever the planner believes: planned once for each session.
CREATE FUNCTION shares_of(wanted text) RETURNS SETOF attempt_devices
LANGUAGE plpgsql STABLE ROWS 2 SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY SELECT * FROM attempt_devices WHERE attempt_id = wanted;
END $$;

-- As in 0034, but for the lookups.
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
    WHERE tasks.id = ANY(ARRAY(SELECT attempts.task_id FROM attempts WHERE attempts.id = ANY(wanted)))
    ORDER BY tasks.id FOR UPDATE;
    -- Those that may take over a share are locked with the attempt that holds it, before any node.
    -- The second time with those that were added while the first one waited for the holder: they are
    -- newer than all others, and adding one locks the holder.
    FOR round IN 1 .. 2 LOOP
        PERFORM FROM attempts
        WHERE attempts.id = ANY(wanted || ARRAY(
            SELECT ahead.id FROM attempts AS ahead
            WHERE ahead.finished_at IS NULL AND NOT ahead.has_share AND ahead.line = ANY(ARRAY(
                SELECT coalesce(holder.line, holder.id) FROM attempts AS holder
                WHERE holder.id = ANY(wanted)))))
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
        NOT EXISTS (
            SELECT FROM (SELECT share.device_id FROM attempt_devices AS share
                WHERE share.attempt_id = attempts.id OFFSET 0) AS share
            JOIN devices ON devices.id = share.device_id WHERE availability <> 'available'),
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

-- A plan is kept for minutes. One that was made for tables of a few analysed rows reads them whole, also
-- when they have grown; without statistics the planner expects more rows, and goes by the indexes.
ALTER TABLE tasks SET (autovacuum_analyze_threshold = 1000);
ALTER TABLE attempts SET (autovacuum_analyze_threshold = 1000);
ALTER TABLE attempt_devices SET (autovacuum_analyze_threshold = 1000);
