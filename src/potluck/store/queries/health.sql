-- name: read
-- The time at which the statement runs, and not at which its transaction began: clocks are set by it.
SELECT
    clock_timestamp() AS read_at,
    (SELECT version_num FROM schema_version) AS schema_version,
    (SELECT max(compatible_since) FROM applied_migrations) AS compatible_since,
    (SELECT holder FROM leader WHERE expires_at > clock_timestamp()) AS leader
