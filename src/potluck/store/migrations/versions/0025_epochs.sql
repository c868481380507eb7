-- Rewards by epoch, and what was paid outside of the pool. How long devices are offered.

-- What happens to an account's rewards: they stay its credits, or are set aside for a payout.
ALTER TABLE accounts ADD COLUMN rewards_to text NOT NULL DEFAULT 'credits'
    CONSTRAINT accounts_rewards_to_check CHECK (rewards_to IN ('credits', 'payout'));

ALTER TABLE balances
    ADD COLUMN claimable_micro bigint NOT NULL DEFAULT 0 CHECK (claimable_micro >= 0),
    -- All that was ever paid as a reward, taken of it as a fee, and paid outside. The trigger adds to
    -- them, under the lock of the row.
    ADD COLUMN earned_micro bigint NOT NULL DEFAULT 0 CHECK (earned_micro >= 0),
    ADD COLUMN fee_micro    bigint NOT NULL DEFAULT 0 CHECK (fee_micro >= 0),
    ADD COLUMN paid_micro   bigint NOT NULL DEFAULT 0 CHECK (paid_micro >= 0),
    -- How much of the first two closed epochs have counted.
    ADD COLUMN counted_earned_micro bigint NOT NULL DEFAULT 0,
    ADD COLUMN counted_fee_micro    bigint NOT NULL DEFAULT 0,
    -- Rewards for a payout that were held for running tasks when the last epoch was closed.
    ADD COLUMN carried_micro bigint NOT NULL DEFAULT 0 CHECK (carried_micro >= 0),
    ADD CHECK (counted_earned_micro <= earned_micro AND counted_fee_micro <= fee_micro);

-- Numbered without gaps. One that is closed late has what was paid until then.
CREATE TABLE epochs (
    number     integer PRIMARY KEY CHECK (number > 0),
    starts_at  timestamptz NOT NULL,
    ends_at    timestamptz NOT NULL CHECK (ends_at > starts_at),
    closing_at timestamptz,
    closed_at  timestamptz,
    -- Of all accounts, when it was closed. The cumulative amount is that of all epochs so far.
    accounts         integer,
    earned_micro     bigint,
    fee_micro        bigint,
    amount_micro     bigint,
    cumulative_micro bigint,
    -- Of the statement for the whole pool.
    statement_sha256 bytea CHECK (length(statement_sha256) = 32),
    CHECK (closed_at IS NULL OR closing_at IS NOT NULL),
    CHECK ((closed_at IS NULL) = (statement_sha256 IS NULL))
);
CREATE UNIQUE INDEX epochs_one_open ON epochs ((true)) WHERE closed_at IS NULL;

-- An account's part of a closed epoch, written once.
CREATE TABLE epoch_rewards (
    epoch            integer NOT NULL REFERENCES epochs,
    account_id       text COLLATE "C" NOT NULL REFERENCES accounts,
    earned_micro     bigint NOT NULL CHECK (earned_micro >= 0),
    fee_micro        bigint NOT NULL CHECK (fee_micro BETWEEN 0 AND earned_micro),
    -- Of attempts that still ran.
    held_back_micro  bigint NOT NULL CHECK (held_back_micro >= 0),
    rewards_to       text NOT NULL CHECK (rewards_to IN ('credits', 'payout')),
    -- Moved from available to claimable; and in all epochs so far.
    amount_micro     bigint NOT NULL CHECK (amount_micro >= 0),
    cumulative_micro bigint NOT NULL CHECK (cumulative_micro >= amount_micro),
    PRIMARY KEY (epoch, account_id)
);
CREATE INDEX epoch_rewards_of_account ON epoch_rewards (account_id, epoch);
CREATE TRIGGER epoch_rewards_are_final BEFORE UPDATE OR DELETE OR TRUNCATE ON epoch_rewards
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();

-- Paid outside of the pool. The id is chosen by whoever paid: the same one is counted once.
CREATE TABLE payouts (
    id           text COLLATE "C" PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 200),
    account_id   text COLLATE "C" NOT NULL REFERENCES accounts,
    amount_micro bigint NOT NULL CHECK (amount_micro > 0),
    reference    text NOT NULL DEFAULT '',
    -- NULL if no person recorded it.
    recorded_by  text COLLATE "C" REFERENCES accounts,
    recorded_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX payouts_of_account ON payouts (account_id, recorded_at);
CREATE TRIGGER payouts_are_final BEFORE UPDATE OR DELETE OR TRUNCATE ON payouts
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();

ALTER TABLE ledger_entries
    ADD COLUMN epoch     integer REFERENCES epochs,
    ADD COLUMN payout_id text COLLATE "C" REFERENCES payouts,
    DROP CONSTRAINT ledger_entries_kind_check,
    DROP CONSTRAINT ledger_entries_purse_check,
    DROP CONSTRAINT ledger_entries_check,
    DROP CONSTRAINT ledger_entries_check1,
    ADD CONSTRAINT ledger_entries_kind_check CHECK (kind IN (
        'grant', 'hold', 'charge', 'reward', 'refund', 'release', 'reversal', 'fee', 'epoch', 'payout')),
    ADD CONSTRAINT ledger_entries_purse_check CHECK (purse IN (
        'available', 'held', 'held_back', 'claimable', 'issued', 'fees', 'paid')),
    ADD CONSTRAINT ledger_entries_check
        CHECK ((account_id IS NULL) = (purse IN ('issued', 'fees', 'paid'))),
    ADD CONSTRAINT ledger_entries_check1
        CHECK ((attempt_id IS NULL) = (kind IN ('grant', 'epoch', 'payout'))),
    ADD CONSTRAINT ledger_entries_of_epoch CHECK ((epoch IS NULL) = (kind <> 'epoch')),
    ADD CONSTRAINT ledger_entries_of_payout CHECK ((payout_id IS NULL) = (kind <> 'payout'));
-- Nothing is set aside twice for one epoch, and no payout is counted twice.
CREATE UNIQUE INDEX ledger_entries_once_in_epoch ON ledger_entries (epoch, account_id, purse)
    WHERE epoch IS NOT NULL;
CREATE UNIQUE INDEX ledger_entries_once_paid ON ledger_entries (payout_id, purse)
    WHERE payout_id IS NOT NULL;

-- As before, with what is claimable, and what was ever earned, taken as a fee, and paid.
CREATE OR REPLACE FUNCTION ledger_apply() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM added GROUP BY attempt_id, epoch, payout_id
            HAVING sum(amount_micro) <> 0) THEN
        RAISE EXCEPTION 'ledger entries do not balance' USING ERRCODE = 'check_violation';
    END IF;
    -- In id order, so that two transfers between the same accounts cannot deadlock.
    PERFORM FROM balances WHERE account_id IN (SELECT account_id FROM added)
        ORDER BY account_id FOR UPDATE;
    UPDATE balances SET
        available_micro = balances.available_micro + moved.available,
        held_micro = balances.held_micro + moved.held,
        held_back_micro = balances.held_back_micro + moved.held_back,
        claimable_micro = balances.claimable_micro + moved.claimable,
        earned_micro = balances.earned_micro + moved.earned,
        fee_micro = balances.fee_micro + moved.fee,
        paid_micro = balances.paid_micro + moved.paid
    FROM (
        SELECT account_id,
            coalesce(sum(amount_micro) FILTER (WHERE purse = 'available'), 0) AS available,
            coalesce(sum(amount_micro) FILTER (WHERE purse = 'held'), 0) AS held,
            coalesce(sum(amount_micro) FILTER (WHERE purse = 'held_back'), 0) AS held_back,
            coalesce(sum(amount_micro) FILTER (WHERE purse = 'claimable'), 0) AS claimable,
            coalesce(sum(amount_micro) FILTER (
                WHERE purse = 'available' AND kind IN ('reward', 'release')), 0) AS earned,
            coalesce(-sum(amount_micro) FILTER (WHERE kind = 'fee'), 0) AS fee,
            coalesce(-sum(amount_micro) FILTER (WHERE kind = 'payout'), 0) AS paid
        FROM added WHERE account_id IS NOT NULL GROUP BY account_id
    ) AS moved
    WHERE balances.account_id = moved.account_id;
    RETURN NULL;
END $$;

-- Rewards from before are credits already, and belong to no epoch.
UPDATE balances SET earned_micro = sums.earned, counted_earned_micro = sums.earned,
    fee_micro = sums.fee, counted_fee_micro = sums.fee
FROM (
    SELECT account_id,
        coalesce(sum(amount_micro) FILTER (WHERE kind <> 'fee'), 0) AS earned,
        coalesce(-sum(amount_micro) FILTER (WHERE kind = 'fee'), 0) AS fee
    FROM ledger_entries
    WHERE account_id IS NOT NULL AND purse = 'available' AND kind IN ('reward', 'release', 'fee')
    GROUP BY account_id
) AS sums
WHERE balances.account_id = sums.account_id;

-- Since when a device takes work: it is bound and available, and its node is online and not cordoned.
-- Not in `devices`: the leader reads each row that is written there.
CREATE TABLE device_offers (
    device_id text COLLATE "C" PRIMARY KEY REFERENCES devices,
    since     timestamptz NOT NULL DEFAULT now()
);
-- How long it was offered on a day (UTC), up to when an offer last ended.
CREATE TABLE device_days (
    device_id       text COLLATE "C" NOT NULL REFERENCES devices,
    day             date NOT NULL,
    offered_seconds double precision NOT NULL CHECK (offered_seconds >= 0),
    PRIMARY KEY (device_id, day)
);

-- The part of a period in each day of UTC.
CREATE FUNCTION seconds_by_day(since timestamptz, until timestamptz)
RETURNS TABLE (day date, seconds double precision) LANGUAGE sql STABLE AS $$
    SELECT first::date, extract(epoch FROM
        least(until AT TIME ZONE 'UTC', first + interval '1 day')
        - greatest(since AT TIME ZONE 'UTC', first))::double precision
    FROM generate_series(date_trunc('day', since AT TIME ZONE 'UTC'), until AT TIME ZONE 'UTC',
        interval '1 day') AS first
    WHERE until > since
$$;

-- Ends and begins the offers of devices, as their rows now say.
CREATE FUNCTION track_offers(wanted text[], until timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH ended AS (
        DELETE FROM device_offers
        WHERE device_id = ANY(wanted) AND NOT EXISTS (
            SELECT FROM devices JOIN nodes ON nodes.id = node_id
            WHERE devices.id = device_id AND is_present AND standing = 'bound'
                AND availability = 'available' AND nodes.state = 'online' AND cordoned_at IS NULL)
        RETURNING device_id, since
    )
    INSERT INTO device_days (device_id, day, offered_seconds)
    SELECT device_id, part.day, part.seconds
    FROM ended CROSS JOIN LATERAL seconds_by_day(since, until) AS part
    ORDER BY device_id, part.day
    ON CONFLICT (device_id, day) DO UPDATE
        SET offered_seconds = device_days.offered_seconds + excluded.offered_seconds;
    INSERT INTO device_offers (device_id)
    SELECT devices.id FROM devices JOIN nodes ON nodes.id = node_id
    WHERE devices.id = ANY(wanted) AND is_present AND standing = 'bound'
        AND availability = 'available' AND nodes.state = 'online' AND cordoned_at IS NULL
    ORDER BY devices.id
    ON CONFLICT DO NOTHING;
END $$;

CREATE FUNCTION track_device() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM track_offers(ARRAY[NEW.id], now());
    RETURN NULL;
END $$;
CREATE TRIGGER devices_offered AFTER INSERT ON devices FOR EACH ROW EXECUTE FUNCTION track_device();
CREATE TRIGGER devices_offered_again AFTER UPDATE ON devices FOR EACH ROW
    WHEN ((OLD.is_present, OLD.standing, OLD.availability)
        IS DISTINCT FROM (NEW.is_present, NEW.standing, NEW.availability))
    EXECUTE FUNCTION track_device();

-- A node that fell silent offered nothing since its last heartbeat.
CREATE FUNCTION track_node() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM track_offers(ARRAY(SELECT id FROM devices WHERE node_id = NEW.id),
        CASE WHEN NEW.state = 'silent' THEN OLD.heartbeat_at ELSE now() END);
    RETURN NULL;
END $$;
CREATE TRIGGER nodes_offered AFTER UPDATE ON nodes FOR EACH ROW
    WHEN ((OLD.state, OLD.cordoned_at) IS DISTINCT FROM (NEW.state, NEW.cordoned_at))
    EXECUTE FUNCTION track_node();

SELECT track_offers(ARRAY(SELECT id FROM devices), now());
