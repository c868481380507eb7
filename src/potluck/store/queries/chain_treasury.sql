-- What the treasury reads of the ledger, with its own connection: the entries themselves, and no sums
-- that the server keeps.

-- name: root
SELECT chain_contracts.token, token_units, credit_micro, epochs.statement_sha256
FROM chain_roots JOIN chain_contracts USING (chain_id, contract)
    JOIN epochs ON epochs.number = epoch
WHERE chain_id = :key.chain_id AND contract = :key.contract AND chain_roots.number = :number

-- name: wallets
-- Assigned to this contract up to the root; what the account has elsewhere: paid outside, or assigned
-- to other contracts; set aside by closed epochs; and earned, without the fee.
WITH assigned AS (
    SELECT account_id, sum(amount_micro)::bigint AS micro FROM chain_rewards
    WHERE chain_id = :key.chain_id AND contract = :key.contract AND number <= :number
    GROUP BY account_id
), outside AS (
    SELECT account_id, sum(amount_micro)::bigint AS micro
    FROM payouts WHERE NOT EXISTS (SELECT FROM chain_claims WHERE payout_id = payouts.id)
    GROUP BY account_id
), other_contracts AS (
    SELECT account_id, sum(amount_micro)::bigint AS micro FROM chain_rewards
    WHERE (chain_id, contract) <> (:key.chain_id, :key.contract)
    GROUP BY account_id
), entries AS (
    SELECT account_id,
        coalesce(sum(amount_micro) FILTER (WHERE kind = 'epoch' AND purse = 'claimable'), 0)::bigint
            AS set_aside,
        coalesce(sum(amount_micro) FILTER (
            WHERE purse = 'available' AND kind IN ('reward', 'release', 'fee')), 0)::bigint AS earned
    FROM ledger_entries WHERE account_id IN (SELECT account_id FROM assigned)
    GROUP BY account_id
)
SELECT address, assigned.micro AS assigned_micro,
    coalesce(outside.micro, 0) + coalesce(other_contracts.micro, 0) AS elsewhere_micro,
    coalesce(set_aside, 0) AS set_aside_micro, coalesce(earned, 0) AS earned_micro
FROM assigned JOIN accounts ON accounts.id = assigned.account_id
    LEFT JOIN outside USING (account_id) LEFT JOIN other_contracts USING (account_id)
    LEFT JOIN entries USING (account_id)
ORDER BY address COLLATE "C"
