-- name: append
-- One statement for all sides: the trigger checks that they sum to zero and moves the balances.
INSERT INTO ledger_entries (attempt_id, adoption, slice, epoch, payout_id, deposit_id, account_id, kind,
    purse, amount_micro)
SELECT attempt_id, adoption, slice, epoch, payout_id, deposit_id, account_id, kind, purse, amount_micro
FROM unnest(:sides[].movement.attempt_id::text[], :sides[].movement.adoption::integer[],
    :sides[].movement.slice::integer[], :sides[].movement.epoch::integer[],
    :sides[].movement.payout_id::text[], :sides[].movement.deposit_id::bigint[],
    :sides[].entry.account_id::text[], :sides[].entry.kind::text[], :sides[].entry.purse::text[],
    :sides[].entry.amount_micro::bigint[])
    AS side (attempt_id, adoption, slice, epoch, payout_id, deposit_id, account_id, kind, purse,
        amount_micro)
