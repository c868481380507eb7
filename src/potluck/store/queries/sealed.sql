-- name: keys_in_use
-- From one id to the next through the index: a few steps, however many tasks there are.
WITH RECURSIVE used (key) AS (
    (SELECT sealed_by FROM tasks WHERE sealed_by >= '' ORDER BY sealed_by LIMIT 1)
    UNION ALL
    SELECT (SELECT sealed_by FROM tasks WHERE sealed_by > used.key ORDER BY sealed_by LIMIT 1)
    FROM used WHERE used.key IS NOT NULL
)
SELECT key FROM used WHERE key IS NOT NULL
UNION SELECT substring(sealed_secret FROM 2 FOR 4) FROM installation
    WHERE sealed_secret IS NOT NULL

-- name: specs_of_keys
-- Whoever works with a task just now is not kept waiting; the task is found again by a later call.
SELECT id, sealed_spec FROM tasks WHERE sealed_by = ANY($1) AND id <> ALL($3::text[]) LIMIT $2
FOR NO KEY UPDATE SKIP LOCKED

-- name: replace_specs
-- Nobody sees a difference: neither the version nor the time of the last change moves.
UPDATE tasks SET sealed_spec = anew.sealed
FROM unnest($1::text[], $2::bytea[]) AS anew (id, sealed)
WHERE tasks.id = anew.id

-- name: count_of_keys
SELECT count(*) FROM tasks WHERE sealed_by = ANY($1)

-- name: specs_in_the_clear
SELECT id, request->'spec' AS spec, request_hash FROM tasks
WHERE request IS NOT NULL ORDER BY id LIMIT $1
FOR NO KEY UPDATE

-- name: seal_specs
UPDATE tasks SET sealed_spec = anew.sealed, request_hash = anew.request_hash, request = NULL
FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS anew (id, sealed, request_hash)
WHERE tasks.id = anew.id
