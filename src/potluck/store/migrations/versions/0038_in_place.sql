-- An index on `items` kept each grant of calls to a standing attempt from being an update in place: all
-- indexes of the row got a new entry. Attempts of an earlier version are not in the new index, which only
-- guards what the assignment guarantees anyway.
ALTER TABLE attempts ADD COLUMN is_whole boolean;  -- true unless it has a part of an array
UPDATE attempts SET is_whole = true WHERE finished_at IS NULL AND items IS NULL;
DROP INDEX attempts_one_live;
-- A single task has at most one live attempt, whatever the code does.
CREATE UNIQUE INDEX attempts_one_live ON attempts (task_id) WHERE finished_at IS NULL AND is_whole;
