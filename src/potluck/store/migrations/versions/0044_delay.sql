-- The delay that a task was submitted with: `not_before` is cleared when it is assigned, and moves when an
-- attempt is lost. NULL also for tasks of earlier versions.
ALTER TABLE tasks ADD COLUMN delay_seconds double precision;
