-- Attempts and their tasks, locked until the transaction ends, with all that an end or any other
-- report is decided by. Two statements that always go together: what other attempts of a task have
-- come to is seen by the second only because the first has waited for the task. Of an array the
-- losses are those of the item that was running.
CREATE FUNCTION lock_attempts(wanted text[]) RETURNS TABLE (
    id text, task_id text, node_id text, state text, reason text, consumer_id text,
    provider_id text, price_micro_per_hour bigint, hold_micro bigint, charge_micro bigint,
    adoptions integer, run_seconds_limit double precision, started_at timestamptz,
    report_hash bytea, is_range boolean, remaining int4multirange, items_seconds double precision,
    is_reclaimable boolean, most_seconds double precision,
    task_state text, kind text, failures integer, losses integer, max_attempts integer,
    items integer, has_pending boolean, pending_pieces bigint, items_succeeded integer,
    items_failed integer, allow_failures integer,
    has_others boolean, other_nodes_lost bigint, item_losses bigint, declines bigint,
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
                AND other.reason = 'declined'),
        now(), clock_timestamp(), attempts.lease_expires_at <= clock_timestamp(),
        attempts.fetched_at IS NOT NULL,
        NOT EXISTS (SELECT FROM attempt_devices JOIN devices ON devices.id = device_id
            WHERE attempt_id = attempts.id AND availability <> 'available')
    FROM attempts JOIN tasks ON tasks.id = attempts.task_id
    WHERE attempts.id = ANY(wanted)
    ORDER BY attempts.id
    FOR UPDATE OF attempts;
END $$;
