-- An account's entries of one kind in the order of time, for pages and for sums. It takes the place
-- of two: of all entries of an account, and of its rewards by time.
CREATE INDEX ledger_entries_in_order ON ledger_entries (account_id, kind, created_at, id);
DROP INDEX ledger_entries_of_account;
DROP INDEX ledger_entries_rewards;
