"""Faults of rewards, as SQL: an epoch that cannot be closed, and a reward that nobody pays."""

EPOCH_STUCK = """
CREATE FUNCTION refuse_epoch() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN RAISE EXCEPTION 'a fault'; END$$;
UPDATE epochs SET starts_at = now() - interval '2 days', ends_at = now() - interval '1 day'
    WHERE closed_at IS NULL;
CREATE TRIGGER stuck BEFORE UPDATE ON epochs EXECUTE FUNCTION refuse_epoch();
"""
EPOCH_FREE = "DROP TRIGGER stuck ON epochs; DROP FUNCTION refuse_epoch()"
PAYOUT_LATE = """
INSERT INTO epochs (number, starts_at, ends_at, closing_at, closed_at, statement_sha256)
SELECT 900000, at - interval '1 day', at, at, at, sha256('') FROM (
    SELECT now() - interval '30 days' AS at) AS past;
INSERT INTO epoch_rewards SELECT 900000, id, 5, 0, 0, 'payout', 5, 5 FROM accounts
    ORDER BY id LIMIT 1;
INSERT INTO ledger_entries (account_id, kind, purse, amount_micro)
    SELECT account_id, 'grant', 'available', 5 FROM epoch_rewards WHERE epoch = 900000
    UNION ALL SELECT NULL, 'grant', 'issued', -5;
INSERT INTO ledger_entries (epoch, account_id, kind, purse, amount_micro)
    SELECT epoch, account_id, 'epoch', side.purse, side.amount
    FROM epoch_rewards, (VALUES ('available', -5), ('claimable', 5)) AS side (purse, amount)
    WHERE epoch = 900000;
"""
PAYOUT_PAID = """
INSERT INTO payouts (id, account_id, amount_micro)
    SELECT 'at last', account_id, 5 FROM epoch_rewards WHERE epoch = 900000;
INSERT INTO ledger_entries (payout_id, account_id, kind, purse, amount_micro)
    SELECT id, account_id, 'payout', 'claimable', -5 FROM payouts WHERE id = 'at last'
    UNION ALL SELECT 'at last', NULL, 'payout', 'paid', 5;
"""
