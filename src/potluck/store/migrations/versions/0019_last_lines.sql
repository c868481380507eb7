-- The last lines of stderr of a failed attempt or item, and the exception of a function. They quote
-- the task, so they are sealed.
ALTER TABLE attempts
    ADD COLUMN sealed_last_lines bytea,
    ADD COLUMN last_lines_by bytea GENERATED ALWAYS AS (substring(sealed_last_lines FROM 2 FOR 4)) STORED;
ALTER TABLE attempts ALTER COLUMN sealed_last_lines SET STORAGE EXTERNAL;
CREATE INDEX attempts_by_key ON attempts (last_lines_by) WHERE last_lines_by IS NOT NULL;

ALTER TABLE failed_items
    ADD COLUMN sealed_last_lines bytea,
    ADD COLUMN last_lines_by bytea GENERATED ALWAYS AS (substring(sealed_last_lines FROM 2 FOR 4)) STORED;
ALTER TABLE failed_items ALTER COLUMN sealed_last_lines SET STORAGE EXTERNAL;
CREATE INDEX failed_items_by_key ON failed_items (last_lines_by) WHERE last_lines_by IS NOT NULL;
