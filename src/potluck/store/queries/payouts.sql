-- What was paid outside the pool, each under an id that the payer chose.

-- name: lock_claimable
-- By wallet, without what is in roots of contracts: those pay it. In the order in which the ledger's
-- trigger locks.
SELECT address, account_id, claimable_micro - assigned_micro AS claimable_micro
FROM balances JOIN accounts ON accounts.id = account_id
WHERE address = ANY(:addresses::text[]) ORDER BY account_id FOR UPDATE OF balances

-- name: recorded
-- Read under the locks of the accounts: then nothing can be recorded for them meanwhile.
SELECT payouts.*, accounts.address FROM payouts JOIN accounts ON accounts.id = account_id
WHERE payouts.id = ANY(:ids::text[])

-- name: record
INSERT INTO payouts (id, account_id, amount_micro, reference, recorded_by)
SELECT *, :recorded_by::text FROM unnest(:payouts[].id::text[], :payouts[].account_id::text[],
    :payouts[].amount_micro::bigint[], :payouts[].reference::text[])

-- name: claimable
-- Who is to be paid, and since when: the first epoch that neither payouts nor roots of contracts
-- cover. What is in roots is paid by them.
SELECT account_id, address, label, claimable_micro - assigned_micro AS claimable_micro, paid_micro,
    (SELECT min(epoch) FROM epoch_rewards
        WHERE epoch_rewards.account_id = balances.account_id AND amount_micro > 0
            AND epoch_rewards.cumulative_micro > paid_micro + assigned_micro) AS unpaid_since_epoch
FROM balances JOIN accounts ON accounts.id = account_id
WHERE claimable_micro > assigned_micro AND account_id > :after_id ORDER BY account_id LIMIT :limit

-- name: page
-- The newest first; of one account, or of all.
SELECT payouts.*, accounts.address FROM payouts JOIN accounts ON accounts.id = account_id
WHERE (:account_id::text IS NULL OR account_id = :account_id)
    AND (recorded_at, payouts.id) < (:before.at, :before.id)
ORDER BY recorded_at DESC, payouts.id DESC LIMIT :limit

-- name: position
SELECT recorded_at FROM payouts
WHERE id = :id AND (:account_id::text IS NULL OR account_id = :account_id)
