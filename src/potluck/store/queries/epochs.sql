-- Epochs: rewards are counted once, when the epoch is closed. What belongs to it is decided by the sums
-- in `balances`, under the lock of the row: each transaction that pays a reward holds that lock until
-- it commits. So a payment that commits late is in the next epoch, whatever its time is.

-- name: open_first
-- Once; other instances may try as well.
INSERT INTO epochs (number, starts_at, ends_at)
SELECT 1, now(), :ends_at WHERE NOT EXISTS (SELECT FROM epochs) ON CONFLICT DO NOTHING

-- name: lock_open
SELECT number, starts_at, ends_at, closing_at, clock_timestamp() AS now
FROM epochs WHERE closed_at IS NULL FOR UPDATE

-- name: begin_closing
UPDATE epochs SET closing_at = now() WHERE number = :number AND closing_at IS NULL

-- name: uncounted
-- The next accounts that earned something, or have a rest of the last epoch. An account that has
-- its part of this epoch is not counted again, whatever it earned since.
SELECT account_id FROM balances
WHERE account_id > :after_id
    AND (earned_micro > counted_earned_micro OR carried_micro > 0)
    AND NOT EXISTS (SELECT FROM epoch_rewards
        WHERE epoch = :number AND epoch_rewards.account_id = balances.account_id)
ORDER BY account_id LIMIT :limit

-- name: lock_uncounted
-- The sums as they are under the lock, in the order in which the ledger's trigger locks.
SELECT account_id, rewards_to, available_micro, held_micro, held_back_micro,
    earned_micro - counted_earned_micro AS earned_micro,
    fee_micro - counted_fee_micro AS fee_micro, carried_micro,
    claimable_micro + paid_micro AS set_aside_micro
FROM balances JOIN accounts ON accounts.id = account_id
WHERE account_id = ANY(:account_ids::text[])
    AND NOT EXISTS (SELECT FROM epoch_rewards
        WHERE epoch = :number AND epoch_rewards.account_id = balances.account_id)
ORDER BY account_id FOR UPDATE OF balances

-- name: count
-- The caller holds the locks.
WITH counted AS (
    UPDATE balances SET
        counted_earned_micro = balances.counted_earned_micro + reward.earned_micro,
        counted_fee_micro = balances.counted_fee_micro + reward.fee_micro,
        carried_micro = reward.carried_micro
    FROM unnest(:rewards[].account_id::text[], :rewards[].earned_micro::bigint[],
            :rewards[].fee_micro::bigint[], :rewards[].carried_micro::bigint[])
        AS reward (account_id, earned_micro, fee_micro, carried_micro)
    WHERE balances.account_id = reward.account_id
)
INSERT INTO epoch_rewards (epoch, account_id, earned_micro, fee_micro, held_back_micro, rewards_to,
    amount_micro, cumulative_micro)
SELECT :number, * FROM unnest(:rewards[].account_id::text[], :rewards[].earned_micro::bigint[],
    :rewards[].fee_micro::bigint[], :rewards[].held_back_micro::bigint[],
    :rewards[].rewards_to::text[], :rewards[].amount_micro::bigint[],
    :rewards[].cumulative_micro::bigint[])

-- name: finish
-- In the transaction that found no further account.
UPDATE epochs SET closed_at = now(), statement_sha256 = :statement_sha256,
    accounts = sums.accounts, earned_micro = sums.earned_micro, fee_micro = sums.fee_micro,
    amount_micro = sums.amount_micro,
    cumulative_micro = sums.amount_micro + coalesce((SELECT earlier.cumulative_micro
        FROM epochs AS earlier WHERE earlier.number = :number - 1), 0)
FROM (
    SELECT count(*) AS accounts, coalesce(sum(earned_micro), 0) AS earned_micro,
        coalesce(sum(fee_micro), 0) AS fee_micro, coalesce(sum(amount_micro), 0) AS amount_micro
    FROM epoch_rewards WHERE epoch = :number
) AS sums
WHERE epochs.number = :number AND closed_at IS NULL

-- name: open_next
INSERT INTO epochs (number, starts_at, ends_at)
SELECT number + 1, ends_at, :ends_at FROM epochs WHERE number = :number

-- name: page
SELECT *, now() AS read_at FROM epochs
WHERE number < :before_number ORDER BY number DESC LIMIT :limit

-- name: get
SELECT * FROM epochs WHERE number = :number

-- name: rewards_of_epoch
-- With the wallets, in their order.
SELECT epoch_rewards.*, accounts.address
FROM epoch_rewards JOIN accounts ON accounts.id = account_id
WHERE epoch = :number AND (:account_id::text IS NULL OR account_id = :account_id)
ORDER BY accounts.address COLLATE "C"

-- name: of_account
-- The newest first.
SELECT epoch_rewards.*, epochs.starts_at, epochs.ends_at, epochs.closed_at
FROM epoch_rewards JOIN epochs ON number = epoch
WHERE account_id = :account_id AND epoch < :before_number AND closed_at IS NOT NULL
ORDER BY epoch DESC LIMIT :limit

-- name: set_rewards_to
UPDATE accounts SET rewards_to = :rewards_to
WHERE id = :account_id AND rewards_to <> :rewards_to RETURNING id

-- name: standing
-- What an account has earned, and where it is now.
SELECT rewards_to, available_micro, held_micro, held_back_micro, claimable_micro, earned_micro,
    fee_micro, paid_micro, earned_micro - counted_earned_micro AS epoch_earned_micro,
    fee_micro - counted_fee_micro AS epoch_fee_micro, carried_micro
FROM balances JOIN accounts ON accounts.id = account_id WHERE account_id = :account_id
