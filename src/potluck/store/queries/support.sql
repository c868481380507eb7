-- name: tables
-- The rows are PostgreSQL's estimates, so that nothing is counted.
SELECT pg_class.relname::text AS name, greatest(reltuples, 0)::bigint AS rows,
    pg_total_relation_size(pg_class.oid) AS size_bytes,
    coalesce(n_dead_tup, 0) AS dead_rows, last_autovacuum, last_autoanalyze
FROM pg_class LEFT JOIN pg_stat_user_tables ON relid = pg_class.oid
WHERE relkind = 'r' AND relnamespace = current_schema()::text::regnamespace
ORDER BY 3 DESC

-- name: sessions
-- Without their statements: those of other programs may contain anything.
SELECT coalesce(state, '') AS state, coalesce(wait_event_type, '') AS wait, count(*) AS sessions,
    coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::double precision
        AS longest_transaction_seconds
FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1, 2 ORDER BY 3 DESC

-- name: server
SELECT name, setting FROM pg_settings
WHERE name = ANY(ARRAY['server_version', 'max_connections', 'shared_buffers', 'work_mem',
    'synchronous_commit', 'fsync', 'synchronous_standby_names', 'autovacuum',
    'default_transaction_isolation', 'statement_timeout', 'lock_timeout', 'TimeZone'])
ORDER BY name
