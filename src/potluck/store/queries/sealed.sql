-- name: keys_in_use
-- Skips from one id to the next through each index: a few steps for any number of rows.
WITH RECURSIVE specs (key) AS (
    (SELECT sealed_by FROM tasks WHERE sealed_by >= '' ORDER BY sealed_by LIMIT 1)
    UNION ALL
    SELECT (SELECT sealed_by FROM tasks WHERE sealed_by > specs.key ORDER BY sealed_by LIMIT 1)
    FROM specs WHERE specs.key IS NOT NULL
), secrets (key) AS (
    (SELECT secrets_by FROM tasks WHERE secrets_by >= '' ORDER BY secrets_by LIMIT 1)
    UNION ALL
    SELECT (SELECT secrets_by FROM tasks WHERE secrets_by > secrets.key ORDER BY secrets_by LIMIT 1)
    FROM secrets WHERE secrets.key IS NOT NULL
), given (key) AS (
    (SELECT sealed_by FROM results WHERE sealed_by >= '' ORDER BY sealed_by LIMIT 1)
    UNION ALL
    SELECT (SELECT sealed_by FROM results WHERE sealed_by > given.key ORDER BY sealed_by LIMIT 1)
    FROM given WHERE given.key IS NOT NULL
), destinations (key) AS (
    (SELECT sealed_by FROM webhooks WHERE sealed_by >= '' ORDER BY sealed_by LIMIT 1)
    UNION ALL
    SELECT (SELECT sealed_by FROM webhooks WHERE sealed_by > destinations.key ORDER BY sealed_by LIMIT 1)
    FROM destinations WHERE destinations.key IS NOT NULL
), of_attempts (key) AS (
    (SELECT last_lines_by FROM attempts WHERE last_lines_by >= '' ORDER BY last_lines_by LIMIT 1)
    UNION ALL
    SELECT (SELECT last_lines_by FROM attempts WHERE last_lines_by > of_attempts.key
        ORDER BY last_lines_by LIMIT 1)
    FROM of_attempts WHERE of_attempts.key IS NOT NULL
), of_items (key) AS (
    (SELECT last_lines_by FROM failed_items WHERE last_lines_by >= '' ORDER BY last_lines_by LIMIT 1)
    UNION ALL
    SELECT (SELECT last_lines_by FROM failed_items WHERE last_lines_by > of_items.key
        ORDER BY last_lines_by LIMIT 1)
    FROM of_items WHERE of_items.key IS NOT NULL
), of_batches (key) AS (
    (SELECT sealed_by FROM item_batches WHERE sealed_by >= '' ORDER BY sealed_by LIMIT 1)
    UNION ALL
    SELECT (SELECT sealed_by FROM item_batches WHERE sealed_by > of_batches.key
        ORDER BY sealed_by LIMIT 1)
    FROM of_batches WHERE of_batches.key IS NOT NULL
)
SELECT key FROM specs WHERE key IS NOT NULL
UNION SELECT key FROM of_batches WHERE key IS NOT NULL
UNION SELECT key FROM secrets WHERE key IS NOT NULL
UNION SELECT key FROM given WHERE key IS NOT NULL
UNION SELECT key FROM destinations WHERE key IS NOT NULL
UNION SELECT key FROM of_attempts WHERE key IS NOT NULL
UNION SELECT key FROM of_items WHERE key IS NOT NULL
UNION SELECT substring(sealed_secret FROM 2 FOR 4) FROM installation
    WHERE sealed_secret IS NOT NULL

-- name: specs_of_keys
-- Skips locked tasks; a later call finds them again.
SELECT id AS row, sealed_spec AS sealed FROM tasks
WHERE sealed_by = ANY(:keys) AND id <> ALL(:excluded_rows::text[]) LIMIT :limit
FOR NO KEY UPDATE SKIP LOCKED

-- name: replace_specs
-- Not visible as a change: version and time of the last change stay.
UPDATE tasks SET sealed_spec = anew.sealed
FROM unnest(:rows::text[], :sealed_values::bytea[]) AS anew (id, sealed)
WHERE tasks.id = anew.id

-- name: secrets_of_keys
SELECT id AS row, sealed_secrets AS sealed FROM tasks
WHERE secrets_by = ANY(:keys) AND id <> ALL(:excluded_rows::text[]) LIMIT :limit
FOR NO KEY UPDATE SKIP LOCKED

-- name: replace_secrets
UPDATE tasks SET sealed_secrets = anew.sealed
FROM unnest(:rows::text[], :sealed_values::bytea[]) AS anew (id, sealed)
WHERE tasks.id = anew.id

-- name: values_of_keys
SELECT task_id || '/' || start AS row, sealed_value AS sealed FROM results
WHERE sealed_by = ANY(:keys) AND task_id || '/' || start <> ALL(:excluded_rows::text[]) LIMIT :limit
FOR NO KEY UPDATE SKIP LOCKED

-- name: replace_values
UPDATE results SET sealed_value = anew.sealed
FROM unnest(:rows::text[], :sealed_values::bytea[]) AS anew (place, sealed)
WHERE task_id = split_part(place, '/', 1) AND start = split_part(place, '/', 2)::integer

-- name: destinations_of_keys
SELECT id AS row, sealed_destination AS sealed FROM webhooks
WHERE sealed_by = ANY(:keys) AND id <> ALL(:excluded_rows::text[]) LIMIT :limit
FOR NO KEY UPDATE SKIP LOCKED

-- name: replace_destinations
UPDATE webhooks SET sealed_destination = anew.sealed
FROM unnest(:rows::text[], :sealed_values::bytea[]) AS anew (id, sealed)
WHERE webhooks.id = anew.id

-- name: attempts_of_keys
SELECT id AS row, sealed_last_lines AS sealed FROM attempts
WHERE last_lines_by = ANY(:keys) AND id <> ALL(:excluded_rows::text[]) LIMIT :limit
FOR NO KEY UPDATE SKIP LOCKED

-- name: replace_attempts
UPDATE attempts SET sealed_last_lines = anew.sealed
FROM unnest(:rows::text[], :sealed_values::bytea[]) AS anew (id, sealed)
WHERE attempts.id = anew.id

-- name: items_of_keys
SELECT task_id || '/' || item AS row, sealed_last_lines AS sealed FROM failed_items
WHERE last_lines_by = ANY(:keys) AND task_id || '/' || item <> ALL(:excluded_rows::text[])
LIMIT :limit
FOR NO KEY UPDATE SKIP LOCKED

-- name: replace_items
UPDATE failed_items SET sealed_last_lines = anew.sealed
FROM unnest(:rows::text[], :sealed_values::bytea[]) AS anew (place, sealed)
WHERE task_id = split_part(place, '/', 1) AND item = split_part(place, '/', 2)::integer

-- name: batches_of_keys
SELECT task_id || '/' || start AS row, sealed_inputs AS sealed FROM item_batches
WHERE sealed_by = ANY(:keys) AND task_id || '/' || start <> ALL(:excluded_rows::text[])
LIMIT :limit
FOR NO KEY UPDATE SKIP LOCKED

-- name: replace_batches
UPDATE item_batches SET sealed_inputs = anew.sealed
FROM unnest(:rows::text[], :sealed_values::bytea[]) AS anew (place, sealed)
WHERE task_id = split_part(place, '/', 1) AND start = split_part(place, '/', 2)::integer

-- name: count_of_keys
SELECT (SELECT count(*) FROM tasks WHERE sealed_by = ANY(:keys))
    + (SELECT count(*) FROM tasks WHERE secrets_by = ANY(:keys))
    + (SELECT count(*) FROM results WHERE sealed_by = ANY(:keys))
    + (SELECT count(*) FROM webhooks WHERE sealed_by = ANY(:keys))
    + (SELECT count(*) FROM attempts WHERE last_lines_by = ANY(:keys))
    + (SELECT count(*) FROM failed_items WHERE last_lines_by = ANY(:keys))
    + (SELECT count(*) FROM item_batches WHERE sealed_by = ANY(:keys))

-- name: specs_in_the_clear
SELECT id, request->'spec' AS spec, request_hash FROM tasks
WHERE request IS NOT NULL ORDER BY id LIMIT :limit
FOR NO KEY UPDATE

-- name: seal_specs
UPDATE tasks SET sealed_spec = anew.sealed, request_hash = anew.request_hash, request = NULL
FROM unnest(:task_ids::text[], :sealed_specs::bytea[], :request_hashes::bytea[])
    AS anew (id, sealed, request_hash)
WHERE tasks.id = anew.id
