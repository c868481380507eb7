-- name: tables
-- Generated columns are computed again. Transaction ids mean nothing in another cluster; as defaults
-- they become those of the transaction that loads the rows.
SELECT relname::text AS name,
    ARRAY(
        SELECT attname::text FROM pg_attribute
        WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
            AND attgenerated = '' AND atttypid <> 'xid8'::regtype
        ORDER BY attnum) AS columns,
    ARRAY(
        SELECT DISTINCT other.relname::text FROM pg_constraint
        JOIN pg_class AS other ON other.oid = confrelid
        WHERE conrelid = pg_class.oid AND contype = 'f' AND confrelid <> conrelid) AS after
FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::text::regnamespace
    AND relname <> ALL(:excluded::text[])
ORDER BY relname

-- name: lift_timeout
-- Of the role or the database; reading a large table takes as long as it takes.
SELECT set_config('statement_timeout', '0', true)

-- name: migrations
SELECT number, checksum FROM applied_migrations ORDER BY number

-- name: blobs
SELECT object_key, sha256, size_bytes FROM blobs ORDER BY object_key

-- name: logs
SELECT id, log_pieces FROM attempts WHERE log_pieces > 0

-- name: still_counted
-- Logs that were not cleared in the meantime.
SELECT id FROM attempts WHERE id = ANY(:attempt_ids::text[]) AND log_pieces > 0

-- name: begin_restore
SELECT begin_restore()

-- name: finish_restore
SELECT finish_restore()

-- name: ledger_sum
SELECT coalesce(sum(amount_micro), 0)::bigint FROM ledger_entries
