-- The transaction that wrote an event. Ids are given when a row is written and seen when it is
-- committed, so who reads on behind the newest id misses what was written before and is committed
-- after. Of the transactions below the oldest that is still open, none commits any more.
-- What is there already is older than all that will come; a constant rewrites no row.
ALTER TABLE events ADD COLUMN tx xid8 NOT NULL DEFAULT '0';
ALTER TABLE events ALTER COLUMN tx SET DEFAULT pg_current_xact_id();

CREATE INDEX events_in_order ON events (account_id, tx, id);
-- Nobody asks for an account's events by their id alone.
DROP INDEX events_of_account;
