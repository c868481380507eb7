-- name: lock_head
-- Last in the lock order: held until the transaction ends.
SELECT number, hash, clock_timestamp() AS at FROM audit_head FOR UPDATE

-- name: append
-- Several in one statement; `place` counts from 1.
INSERT INTO audit (number, at, kind, actor, subject, detail, hash)
SELECT :first_number::bigint + place - 1, :at, kind, actor, subject, detail, hash
FROM unnest(:facts[].kind::text[], :facts[].actor::text[], :facts[].subject::text[],
    :facts[].detail::jsonb[], :hashes::bytea[])
    WITH ORDINALITY AS fact (kind, actor, subject, detail, hash, place)
ORDER BY place

-- name: move_head
UPDATE audit_head SET number = :number, hash = :hash

-- name: head
SELECT number, hash FROM audit_head

-- name: page
SELECT * FROM audit WHERE number > :after_number ORDER BY number LIMIT :limit

-- name: newest
SELECT * FROM audit WHERE number < :before_number ORDER BY number DESC LIMIT :limit
