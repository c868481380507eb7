-- name: lock_head
-- Last in the order of locks: whoever has it holds it until its transaction ends.
SELECT number, hash, clock_timestamp() AS at FROM audit_head FOR UPDATE

-- name: append
-- Several in one statement; `place` counts from 1.
INSERT INTO audit (number, at, kind, actor, subject, detail, hash)
SELECT $1::bigint + place - 1, $2, kind, actor, subject, detail, hash
FROM unnest($3::text[], $4::text[], $5::text[], $6::jsonb[], $7::bytea[])
    WITH ORDINALITY AS fact (kind, actor, subject, detail, hash, place)
ORDER BY place

-- name: move_head
UPDATE audit_head SET number = $1, hash = $2

-- name: head
SELECT number, hash FROM audit_head

-- name: page
SELECT * FROM audit WHERE number > $1 ORDER BY number LIMIT $2

-- name: newest
SELECT * FROM audit WHERE number < $1 ORDER BY number DESC LIMIT $2
