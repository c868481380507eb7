-- Remote requests of owners to their nodes.

-- name: add
-- Numbers grow with the clock: a database restored from a backup does not reuse a number that the
-- node has carried out.
WITH numbered AS (
    UPDATE nodes
    SET last_wish = greatest(last_wish + 1, floor(extract(epoch FROM now()) * 1000)::bigint)
    WHERE id = :node_id
    RETURNING id, last_wish
)
INSERT INTO wishes (node_id, number, wish)
SELECT id, last_wish, :wish FROM numbered
RETURNING number

-- name: carry_out
DELETE FROM wishes WHERE node_id = :node_id AND number <= :number

-- name: pending
SELECT node_id, number, wish FROM wishes WHERE node_id = ANY(:node_ids) ORDER BY node_id, number
