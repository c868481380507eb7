-- Long attempts are charged in slices. The provider's reward for a slice is held back until the
-- attempt ends or a later checkpoint secures it. The operator takes a fee of each reward.

ALTER TABLE balances
    ADD COLUMN held_back_micro bigint NOT NULL DEFAULT 0 CHECK (held_back_micro >= 0);

ALTER TABLE ledger_entries
    -- Which slice of an attempt's life; 0 for its grant, and for its end if there was no slice.
    ADD COLUMN slice integer NOT NULL DEFAULT 0,
    DROP CONSTRAINT ledger_entries_kind_check,
    DROP CONSTRAINT ledger_entries_purse_check,
    DROP CONSTRAINT ledger_entries_check,
    ADD CONSTRAINT ledger_entries_kind_check CHECK (kind IN (
        'grant', 'hold', 'charge', 'reward', 'refund', 'release', 'reversal', 'fee')),
    ADD CONSTRAINT ledger_entries_purse_check CHECK (purse IN (
        'available', 'held', 'held_back', 'issued', 'fees')),
    ADD CONSTRAINT ledger_entries_check
        CHECK ((account_id IS NULL) = (purse IN ('issued', 'fees')));
-- Nothing is held, charged, paid or refunded twice for one slice.
DROP INDEX ledger_entries_once;
CREATE UNIQUE INDEX ledger_entries_once
    ON ledger_entries (attempt_id, adoption, slice, kind, purse) WHERE attempt_id IS NOT NULL;

-- As before, and what is held back.
CREATE OR REPLACE FUNCTION ledger_apply() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM added GROUP BY attempt_id HAVING sum(amount_micro) <> 0) THEN
        RAISE EXCEPTION 'ledger entries do not balance' USING ERRCODE = 'check_violation';
    END IF;
    -- In id order, so that two transfers between the same accounts cannot deadlock.
    PERFORM FROM balances WHERE account_id IN (SELECT account_id FROM added)
        ORDER BY account_id FOR UPDATE;
    UPDATE balances SET
        available_micro = balances.available_micro + moved.available,
        held_micro = balances.held_micro + moved.held,
        held_back_micro = balances.held_back_micro + moved.held_back
    FROM (
        SELECT account_id,
            coalesce(sum(amount_micro) FILTER (WHERE purse = 'available'), 0) AS available,
            coalesce(sum(amount_micro) FILTER (WHERE purse = 'held'), 0) AS held,
            coalesce(sum(amount_micro) FILTER (WHERE purse = 'held_back'), 0) AS held_back
        FROM added WHERE account_id IS NOT NULL GROUP BY account_id
    ) AS moved
    WHERE balances.account_id = moved.account_id;
    RETURN NULL;
END $$;

ALTER TABLE attempts
    ADD COLUMN fee_basis_points integer NOT NULL DEFAULT 0
        CHECK (fee_basis_points BETWEEN 0 AND 10000),
    -- Slices of this life that were charged, and when the next one is due; NULL if none is.
    ADD COLUMN slices         integer NOT NULL DEFAULT 0,
    ADD COLUMN next_slice_at  timestamptz,
    -- The part of the charge that the provider has not been paid yet.
    ADD COLUMN held_back_micro bigint NOT NULL DEFAULT 0 CHECK (held_back_micro >= 0),
    -- When the server acknowledged its last checkpoint.
    ADD COLUMN checkpoint_at  timestamptz,
    -- When its consumer's credit ran out, so that its node was asked to stop it.
    ADD COLUMN unfunded_at    timestamptz;
-- Few: those that have a price and may run longer than a slice.
CREATE INDEX attempts_next_slice ON attempts (next_slice_at) WHERE next_slice_at IS NOT NULL;
-- Lost, and may be re-adopted until its work is granted again.
CREATE INDEX attempts_unresolved ON attempts (finished_at)
    WHERE held_back_micro > 0 AND finished_at IS NOT NULL;

-- As lock_attempts, with what slices have charged, and the last checkpoint. Instances that have not
-- been upgraded yet use the other one.
CREATE FUNCTION lock_attempts_to_settle(wanted text[]) RETURNS TABLE (
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
            WHERE attempt_id = attempts.id AND availability <> 'available')
    FROM attempts JOIN tasks ON tasks.id = attempts.task_id
    CROSS JOIN LATERAL (SELECT make_interval(
        secs => (tasks.limits ->> 'stop_after_silence_seconds')::double precision)) AS own (silence_limit)
    WHERE attempts.id = ANY(wanted)
    ORDER BY attempts.id
    FOR UPDATE OF attempts;
END $$;
