ALTER TABLE attempts
    -- The last heartbeat that listed it, and since when heartbeats have come without a gap.
    ADD COLUMN heard_at    timestamptz,
    ADD COLUMN heard_since timestamptz,
    -- It failed, and such attempts succeed on nodes of other owners.
    ADD COLUMN is_outlier  boolean NOT NULL DEFAULT false,
    -- It failed without output, and its consumer was not charged.
    ADD COLUMN is_spared   boolean NOT NULL DEFAULT false;
-- The few of an account in the last days are counted.
CREATE INDEX attempts_spared ON attempts (consumer_id, finished_at) WHERE is_spared;

ALTER TABLE nodes ADD COLUMN outlier_attempts bigint NOT NULL DEFAULT 0;
-- As before, and outliers: nodes with many of them come last.
DROP TRIGGER nodes_changed ON nodes;
CREATE TRIGGER nodes_changed BEFORE UPDATE ON nodes FOR EACH ROW
    WHEN ((OLD.state, OLD.own_tasks_only, OLD.description, OLD.cores, OLD.memory_bytes, OLD.disk_bytes,
           OLD.used_cores, OLD.used_memory_bytes, OLD.used_disk_bytes, OLD.lost_attempts, OLD.is_polling,
           OLD.outlier_attempts)
        IS DISTINCT FROM
          (NEW.state, NEW.own_tasks_only, NEW.description, NEW.cores, NEW.memory_bytes, NEW.disk_bytes,
           NEW.used_cores, NEW.used_memory_bytes, NEW.used_disk_bytes, NEW.lost_attempts, NEW.is_polling,
           NEW.outlier_attempts))
    EXECUTE FUNCTION stamp_change();

-- As before, with all uncounted losses of the task or item (before: declines), whether there is any
-- output, whether the node was in contact for longer than the task's limit of silence, and whether
-- the task, or the one that it repeats, has failed before.
DROP FUNCTION lock_attempts(text[]);
CREATE FUNCTION lock_attempts(wanted text[]) RETURNS TABLE (
    id text, task_id text, node_id text, state text, reason text, consumer_id text,
    provider_id text, price_micro_per_hour bigint, hold_micro bigint, charge_micro bigint,
    adoptions integer, run_seconds_limit double precision, started_at timestamptz,
    report_hash bytea, is_range boolean, remaining int4multirange, items_seconds double precision,
    is_reclaimable boolean, most_seconds double precision,
    task_state text, kind text, failures integer, losses integer, max_attempts integer,
    items integer, has_pending boolean, pending_pieces bigint, items_succeeded integer,
    items_failed integer, allow_failures integer,
    has_others boolean, other_nodes_lost bigint, item_losses bigint, uncounted_losses bigint,
    has_output boolean, was_in_contact boolean, has_failed_before boolean,
    taken_at timestamptz, now timestamptz, is_expired boolean, was_fetched boolean,
    is_available boolean)
-- Planned once, not for each number of attempts: planning takes longer than all the rest. It may have
-- been planned when the tables were small, and still goes by the indexes.
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tasks
    WHERE tasks.id IN (SELECT attempts.task_id FROM attempts WHERE attempts.id = ANY(wanted))
    ORDER BY tasks.id FOR UPDATE;
    RETURN QUERY
    SELECT attempts.id, attempts.task_id, attempts.node_id, attempts.state, attempts.reason,
        attempts.consumer_id, attempts.provider_id, attempts.price_micro_per_hour,
        attempts.hold_micro, attempts.charge_micro, attempts.adoptions,
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
            WHERE attempt_id = attempts.id AND availability <> 'available')
    FROM attempts JOIN tasks ON tasks.id = attempts.task_id
    CROSS JOIN LATERAL (SELECT make_interval(
        secs => (tasks.limits ->> 'stop_after_silence_seconds')::double precision)) AS own (silence_limit)
    WHERE attempts.id = ANY(wanted)
    ORDER BY attempts.id
    FOR UPDATE OF attempts;
END $$;
