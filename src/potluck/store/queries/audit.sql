-- name: lock_head
-- Last in the order of locks: whoever has it holds it until its transaction ends.
SELECT number, hash, clock_timestamp() AS at FROM audit_head FOR UPDATE

-- name: append
INSERT INTO audit (number, at, kind, actor, subject, detail, hash)
VALUES ($1, $2, $3, $4, $5, $6, $7)

-- name: move_head
UPDATE audit_head SET number = $1, hash = $2

-- name: head
SELECT number, hash FROM audit_head

-- name: page
SELECT * FROM audit WHERE number > $1 ORDER BY number LIMIT $2

-- name: newest
SELECT * FROM audit WHERE number < $1 ORDER BY number DESC LIMIT $2
