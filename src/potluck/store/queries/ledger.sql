-- name: append
-- One statement for all sides: the trigger checks that they sum to zero and moves the balances.
INSERT INTO ledger_entries (attempt_id, adoption, account_id, kind, purse, amount_micro)
SELECT attempt_id, adoption, account_id, kind, purse, amount_micro
FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::bigint[])
    AS side (attempt_id, adoption, account_id, kind, purse, amount_micro)
