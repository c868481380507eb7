ALTER TABLE tasks
    -- The task that this one is tried again for.
    ADD COLUMN retry_of     text COLLATE "C" REFERENCES tasks,
    -- How many secrets went along. They are gone with the task's end, and would be missed.
    ADD COLUMN secret_count integer NOT NULL DEFAULT 0 CHECK (secret_count >= 0);
UPDATE tasks SET secret_count = 1 WHERE sealed_secrets IS NOT NULL;
