-- name: add
-- In the order of the key: two instances may store the same kinds at once.
INSERT INTO error_groups (fingerprint, kind, place, message, trace, instance, occurrences, first_at,
    last_at)
SELECT fingerprint, kind, place, message, trace, :instance, occurrences, now(), now()
FROM unnest(:errors[].fingerprint::text[], :errors[].kind::text[], :errors[].place::text[],
    :errors[].message::text[], :errors[].trace::text[], :errors[].occurrences::bigint[])
    AS error (fingerprint, kind, place, message, trace, occurrences)
ORDER BY fingerprint
ON CONFLICT (fingerprint) DO UPDATE SET
    message = excluded.message, trace = excluded.trace, instance = excluded.instance,
    occurrences = error_groups.occurrences + excluded.occurrences, last_at = excluded.last_at

-- name: latest
SELECT fingerprint, kind, place, message, trace, instance, occurrences, first_at, last_at
FROM error_groups ORDER BY last_at DESC, fingerprint LIMIT :limit

-- name: delete_old
WITH gone AS (
    DELETE FROM error_groups WHERE fingerprint IN (
        (SELECT fingerprint FROM error_groups WHERE last_at <= now() - :kept::interval LIMIT :limit)
        UNION
        (SELECT fingerprint FROM error_groups ORDER BY last_at DESC OFFSET :most LIMIT :limit))
    RETURNING fingerprint
)
SELECT count(*) FROM gone
