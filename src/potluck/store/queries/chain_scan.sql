-- What was read from a chain: deposits and claims, each event once.

-- name: add_contract
INSERT INTO chain_contracts (chain_id, contract, token, token_units, credit_micro, scanned_block)
VALUES (:key.chain_id, :key.contract, :token, :rate.units, :rate.micro, :first_block - 1)
ON CONFLICT DO NOTHING

-- name: contract
SELECT * FROM chain_contracts WHERE chain_id = :key.chain_id AND contract = :key.contract

-- name: lock_contract
SELECT * FROM chain_contracts WHERE chain_id = :key.chain_id AND contract = :key.contract FOR UPDATE

-- name: note_head
-- A head that is lower comes from an endpoint that is behind.
UPDATE chain_contracts SET head_block = greatest(head_block, :head)
WHERE chain_id = :key.chain_id AND contract = :key.contract

-- name: move_cursor
UPDATE chain_contracts SET scanned_block = :block, scanned_hash = :hash
WHERE chain_id = :key.chain_id AND contract = :key.contract

-- name: halt
-- The first reason stays.
UPDATE chain_contracts SET halted_at = now(), halted_because = :because
WHERE chain_id = :key.chain_id AND contract = :key.contract AND halted_at IS NULL
RETURNING true

-- name: resume
UPDATE chain_contracts SET halted_at = NULL, halted_because = NULL,
    scanned_block = coalesce(:block::bigint, scanned_block),
    scanned_hash = coalesce(:hash::bytea, scanned_hash)
WHERE chain_id = :key.chain_id AND contract = :key.contract

-- name: note_wait
-- The time stays while the reason does.
UPDATE chain_contracts SET waits_because = nullif(:because::text, ''),
    waits_since = CASE WHEN :because::text = '' THEN NULL
        WHEN waits_because = :because::text THEN waits_since ELSE now() END
WHERE chain_id = :key.chain_id AND contract = :key.contract
    AND waits_because IS DISTINCT FROM nullif(:because::text, '')

-- name: add_deposits
-- A transaction that a reorganisation has put into another block is still the same deposit.
INSERT INTO chain_deposits (chain_id, contract, transaction_hash, log_index, block_number,
    block_hash, address, payer, units, amount_micro)
SELECT :key.chain_id, :key.contract, event.* FROM unnest(
    :deposits[].place.transaction_hash::bytea[], :deposits[].place.log_index::integer[],
    :deposits[].place.block_number::bigint[], :deposits[].place.block_hash::bytea[],
    :deposits[].address::text[], :deposits[].payer::text[], :deposits[].units::numeric[],
    :deposits[].amount_micro::bigint[])
    AS event (transaction_hash, log_index, block_number, block_hash, address, payer, units,
        amount_micro)
WHERE NOT EXISTS (SELECT FROM chain_deposits AS known
    WHERE known.chain_id = :key.chain_id AND known.contract = :key.contract
        AND known.transaction_hash = event.transaction_hash
        AND known.block_hash <> event.block_hash)
ON CONFLICT DO NOTHING

-- name: add_claims
-- As for deposits.
INSERT INTO chain_claims (chain_id, contract, transaction_hash, log_index, block_number,
    block_hash, address, units, cumulative_units, root, amount_micro)
SELECT :key.chain_id, :key.contract, event.* FROM unnest(
    :claims[].place.transaction_hash::bytea[], :claims[].place.log_index::integer[],
    :claims[].place.block_number::bigint[], :claims[].place.block_hash::bytea[],
    :claims[].address::text[], :claims[].units::numeric[], :claims[].cumulative_units::numeric[],
    :claims[].root::bytea[], :claims[].amount_micro::bigint[])
    AS event (transaction_hash, log_index, block_number, block_hash, address, units,
        cumulative_units, root, amount_micro)
WHERE NOT EXISTS (SELECT FROM chain_claims AS known
    WHERE known.chain_id = :key.chain_id AND known.contract = :key.contract
        AND known.transaction_hash = event.transaction_hash
        AND known.block_hash <> event.block_hash)
ON CONFLICT DO NOTHING

-- name: lock_uncredited
-- Those whose wallet has an account. Another instance that still believes to lead waits here, and
-- then finds none. One that its balance could not hold waits, with later ones of its wallet; other
-- wallets are credited.
SELECT chain_deposits.id, amount_micro, accounts.id AS account_id
FROM chain_deposits JOIN accounts ON accounts.address = chain_deposits.address
JOIN balances ON balances.account_id = accounts.id
WHERE chain_id = :key.chain_id AND contract = :key.contract
    AND credited_at IS NULL AND amount_micro IS NOT NULL
    AND available_micro + (SELECT sum(earlier.amount_micro) FROM chain_deposits AS earlier
        WHERE earlier.address = chain_deposits.address AND earlier.credited_at IS NULL
            AND earlier.id <= chain_deposits.id) < 2::numeric ^ 62
ORDER BY chain_deposits.id LIMIT :limit FOR UPDATE OF chain_deposits

-- name: mark_credited
UPDATE chain_deposits SET credited_at = now() WHERE id = ANY(:ids::bigint[]) AND credited_at IS NULL

-- name: lock_unpaid_claims
-- In the order of the chain.
SELECT transaction_hash, log_index, block_number, chain_claims.address, amount_micro,
    accounts.id AS account_id
FROM chain_claims LEFT JOIN accounts ON accounts.address = chain_claims.address
WHERE chain_id = :key.chain_id AND contract = :key.contract AND payout_id IS NULL
    AND (block_number, log_index) > (:after.block_number, :after.log_index)
ORDER BY block_number, log_index LIMIT :limit FOR UPDATE OF chain_claims

-- name: claimed
SELECT coalesce(sum(units), 0) FROM chain_claims
WHERE chain_id = :key.chain_id AND contract = :key.contract AND address = :address

-- name: assigned
-- What the ledger has assigned to the contract and not seen to be claimed, by account; their balances
-- are locked in the order in which the ledger's trigger locks.
WITH locked AS (
    SELECT account_id FROM balances WHERE account_id = ANY(:account_ids::text[])
    ORDER BY account_id FOR UPDATE
)
SELECT account_id,
    coalesce((SELECT sum(amount_micro) FROM chain_rewards
        WHERE chain_id = :key.chain_id AND contract = :key.contract
            AND chain_rewards.account_id = locked.account_id), 0)::bigint
    - coalesce((SELECT sum(amount_micro) FROM chain_claims
        JOIN accounts ON accounts.address = chain_claims.address
        WHERE chain_id = :key.chain_id AND contract = :key.contract AND payout_id IS NOT NULL
            AND accounts.id = locked.account_id), 0)::bigint AS assigned_micro
FROM locked

-- name: unassign
-- Before the ledger moves it: what is assigned is never more than what is claimable.
UPDATE balances SET assigned_micro = balances.assigned_micro - paid.amount_micro
FROM (
    SELECT account_id, sum(amount_micro) AS amount_micro
    FROM unnest(:payouts[].account_id::text[], :payouts[].amount_micro::bigint[])
        AS payout (account_id, amount_micro)
    GROUP BY account_id
) AS paid
WHERE balances.account_id = paid.account_id

-- name: mark_paid
UPDATE chain_claims SET payout_id = :payout_id
WHERE chain_id = :key.chain_id AND contract = :key.contract
    AND transaction_hash = :transaction_hash AND log_index = :log_index AND payout_id IS NULL

-- name: standing
-- For alerts and metrics, of every contract.
SELECT chain_contracts.*,
    (SELECT count(*) FROM chain_claims WHERE chain_claims.chain_id = chain_contracts.chain_id
        AND chain_claims.contract = chain_contracts.contract AND payout_id IS NULL) AS unpaid_claims,
    (SELECT min(created_at) FROM chain_transactions
        WHERE chain_transactions.chain_id = chain_contracts.chain_id
            AND chain_transactions.contract = chain_contracts.contract
            AND settled_at IS NULL) AS open_since
FROM chain_contracts ORDER BY chain_id, contract
