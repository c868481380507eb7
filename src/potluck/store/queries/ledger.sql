-- name: append
-- One statement for all sides: the trigger checks that they sum to zero and moves the balances.
INSERT INTO ledger_entries (attempt_id, account_id, kind, purse, amount_micro)
SELECT $1, side.account_id, side.kind, side.purse, side.amount_micro
FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[])
    AS side (account_id, kind, purse, amount_micro)
