-- The two sides of each deposit sum to zero, as those of attempts, epochs and payouts do.

CREATE OR REPLACE FUNCTION ledger_apply() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM added GROUP BY attempt_id, epoch, payout_id, deposit_id
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

-- Rewards that no root has yet are looked for every few seconds.
CREATE INDEX balances_unassigned ON balances (account_id) WHERE claimable_micro > assigned_micro;
