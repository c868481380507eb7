-- The W3C traceparent of the request that submitted the task, if it had one.
ALTER TABLE tasks ADD COLUMN traceparent text COLLATE "C" CHECK (length(traceparent) <= 64);
