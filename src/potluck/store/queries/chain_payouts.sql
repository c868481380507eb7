-- Roots of rewards, and the transactions that carry them to their contract.

-- name: root
SELECT * FROM chain_roots
WHERE chain_id = :key.chain_id AND contract = :key.contract AND number = :number

-- name: latest_root
SELECT * FROM chain_roots WHERE chain_id = :key.chain_id AND contract = :key.contract
ORDER BY number DESC LIMIT 1

-- name: has_root
SELECT EXISTS (SELECT FROM chain_roots WHERE chain_id = :key.chain_id AND contract = :key.contract
    AND number = :number AND root = :root)

-- name: accepted_root
SELECT * FROM chain_roots WHERE chain_id = :key.chain_id AND contract = :key.contract
    AND state = 'accepted'
ORDER BY number DESC LIMIT 1

-- name: page
SELECT chain_roots.*, transactions.kind, transactions.state AS transaction_state,
    transactions.hash AS transaction_hash,
    CASE WHEN chain_roots.state <> 'accepted' THEN coalesce(halted_because, waits_because) END
        AS waits_because
FROM chain_roots JOIN chain_contracts USING (chain_id, contract) LEFT JOIN LATERAL (
    SELECT kind, state, coalesce(chain_transactions.hash, versions.hash) AS hash
    FROM chain_transactions LEFT JOIN chain_transaction_versions AS versions
        ON versions.transaction_id = chain_transactions.id
    WHERE chain_transactions.chain_id = chain_roots.chain_id
        AND chain_transactions.contract = chain_roots.contract
        AND chain_transactions.number = chain_roots.number
    ORDER BY chain_transactions.id DESC, versions.version DESC LIMIT 1
) AS transactions ON true
WHERE chain_roots.epoch = ANY(:epochs::integer[])
ORDER BY chain_roots.planned_at DESC

-- name: has_unassigned
-- Only while no epoch is being closed: then some accounts have their part of it, and some do not.
SELECT EXISTS (SELECT FROM balances WHERE claimable_micro > assigned_micro)
    AND NOT EXISTS (SELECT FROM epochs WHERE closed_at IS NULL AND closing_at IS NOT NULL)

-- name: lock_open_epoch
-- No other transaction begins to close it until this one ends. No row while it is being closed.
SELECT number FROM epochs WHERE closed_at IS NULL AND closing_at IS NULL FOR UPDATE

-- name: unassigned
-- The largest: what is left over grows, until it is among them.
SELECT account_id, address, claimable_micro - assigned_micro AS amount_micro
FROM balances JOIN accounts ON accounts.id = account_id
WHERE claimable_micro > assigned_micro ORDER BY amount_micro DESC, account_id LIMIT :limit

-- name: last_closed_epoch
SELECT number, statement_sha256 FROM epochs WHERE closed_at IS NOT NULL
ORDER BY number DESC LIMIT 1

-- name: lock_unassigned
-- In the order in which the ledger's trigger locks.
SELECT account_id, address, claimable_micro - assigned_micro AS amount_micro
FROM balances JOIN accounts ON accounts.id = account_id
WHERE account_id = ANY(:rewards[].account_id::text[]) AND claimable_micro > assigned_micro
ORDER BY account_id FOR UPDATE OF balances

-- name: assign
UPDATE balances SET assigned_micro = balances.assigned_micro + reward.amount_micro
FROM unnest(:rewards[].account_id::text[], :rewards[].amount_micro::bigint[])
    AS reward (account_id, amount_micro)
WHERE balances.account_id = reward.account_id

-- name: add_rewards
INSERT INTO chain_rewards (chain_id, contract, number, account_id, amount_micro)
SELECT :key.chain_id, :key.contract, :number, *
FROM unnest(:rewards[].account_id::text[], :rewards[].amount_micro::bigint[])

-- name: leaves
-- What each account has of this contract up to a root.
SELECT accounts.address, sum(amount_micro)::bigint AS amount_micro
FROM chain_rewards JOIN accounts ON accounts.id = account_id
WHERE chain_id = :key.chain_id AND contract = :key.contract AND number <= :number
GROUP BY accounts.address ORDER BY accounts.address COLLATE "C"

-- name: add_root
INSERT INTO chain_roots (chain_id, contract, number, epoch, root, total_units, statement, state,
    is_partial, accepted_at)
VALUES (:key.chain_id, :key.contract, :root.number, :root.epoch, :root.root, :root.total_units,
    :root.statement, :root.state, :root.is_partial, CASE WHEN :root.state = 'accepted' THEN now() END)

-- name: close_open_roots
-- The contract is beyond them; what they assigned is in later roots, whose amounts are cumulative.
UPDATE chain_roots SET state = 'accepted', accepted_at = now()
WHERE chain_id = :key.chain_id AND contract = :key.contract AND number <= :number
    AND state <> 'accepted'

-- name: take_over
-- In place of a root with the same number that the contract did not take.
INSERT INTO chain_roots (chain_id, contract, number, root, total_units, statement, state,
    accepted_at)
VALUES (:key.chain_id, :key.contract, :root.number, :root.root, :root.total_units, :root.statement,
    'accepted', now())
ON CONFLICT (chain_id, contract, number) DO UPDATE SET epoch = NULL, root = excluded.root,
    total_units = excluded.total_units, statement = excluded.statement, is_partial = false

-- name: move_root
UPDATE chain_roots SET state = :state,
    proposed_at = CASE WHEN :state = 'proposed' THEN now() ELSE proposed_at END,
    accepted_at = CASE WHEN :state = 'accepted' THEN now() ELSE accepted_at END
WHERE chain_id = :key.chain_id AND contract = :key.contract AND number = :number
    AND state = ANY(:earlier::text[])
RETURNING true

-- name: open_transaction
SELECT * FROM chain_transactions
WHERE chain_id = :key.chain_id AND contract = :key.contract AND settled_at IS NULL

-- name: versions
SELECT * FROM chain_transaction_versions WHERE transaction_id = :transaction_id ORDER BY version

-- name: intend
INSERT INTO chain_transactions (chain_id, contract, number, kind, sender, nonce, gas)
VALUES (:key.chain_id, :key.contract, :intent.number, :intent.kind, :intent.sender, :intent.nonce,
    :intent.gas)
ON CONFLICT DO NOTHING RETURNING id

-- name: lock_transaction
SELECT state FROM chain_transactions WHERE id = :transaction_id FOR UPDATE

-- name: add_version
INSERT INTO chain_transaction_versions (transaction_id, version, raw, hash, max_fee, max_tip)
SELECT :transaction_id, 1 + count(*), :raw, :hash, :fee.most, :fee.tip
FROM chain_transaction_versions WHERE transaction_id = :transaction_id
ON CONFLICT DO NOTHING

-- name: mark_broadcast
UPDATE chain_transaction_versions SET broadcast_at = now() WHERE hash = :hash

-- name: move_transaction
UPDATE chain_transactions SET state = :state,
    settled_at = CASE WHEN :is_settled THEN now() END, hash = :hash, block_number = :block_number
WHERE id = :transaction_id

-- name: counts
SELECT state, count(*) AS transactions FROM chain_transactions GROUP BY state
