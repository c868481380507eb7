-- A root takes a bounded number of rewards. Whether others were left for the next one is known only when
-- it is planned; of earlier roots it is not known.
ALTER TABLE chain_roots ADD COLUMN is_partial boolean NOT NULL DEFAULT false;
