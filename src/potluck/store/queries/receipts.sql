-- Receipts of nodes. The node is locked before its chain is read or continued, and nothing else is.

-- name: lock_node
-- One heartbeat of a node at a time; its key is the one that signs. Nothing if the node is not the
-- caller's.
SELECT node_keys.address FROM nodes JOIN node_keys ON node_keys.id = nodes.node_key_id
WHERE nodes.id = :node_id AND nodes.account_id = :owner.account_id
    AND nodes.node_key_id = :owner.node_key_id
FOR NO KEY UPDATE OF nodes

-- name: open_chain
-- Made if it is new.
INSERT INTO receipt_chains (node_id, chain, ordinal, node_key, last_digest)
SELECT :node_id, :chain, 1 + (SELECT count(*) FROM receipt_chains WHERE node_id = :node_id),
    :node_key, :first_digest
-- An update that changes nothing, so that the row is returned.
ON CONFLICT (node_id, chain) DO UPDATE SET forks = receipt_chains.forks
RETURNING ordinal, node_key, receipts, last_digest, clock_timestamp() AS now

-- name: facts
-- What the server knows of these attempts, and which of the numbers the chain has already.
SELECT attempts.id, task_id, node_id, consumer_id, state, reason, adoptions, slices,
    price_micro_per_hour, charge_micro, held_back_micro, fee_basis_points, run_seconds_limit,
    fetched_at, started_at, finished_at,
    (SELECT count(*) FROM receipts WHERE attempt_id = attempts.id) AS parts,
    EXISTS (SELECT FROM receipts WHERE attempt_id = attempts.id AND is_last) AS has_last
FROM attempts WHERE attempts.id = ANY(:attempt_ids::text[]) AND node_id = :node_id

-- name: stored
SELECT number, digest, countersignature, server_signature FROM receipts
WHERE node_id = :node_id AND chain = :chain AND number = ANY(:numbers::bigint[])
ORDER BY number

-- name: add
WITH moved AS (
    UPDATE receipt_chains SET receipts = :head.receipts, last_digest = :head.last_digest
    WHERE node_id = :node_id AND chain = :chain
)
INSERT INTO receipts (node_id, chain, number, digest, attempt_id, provider_id, consumer_id, is_last,
    receipt, node_signature, countersignature, server_signature)
SELECT :node_id, :chain, number, digest, attempt_id, :provider_id, consumer_id, is_last,
    receipt, node_signature, countersignature, server_signature
FROM unnest(:added[].signed.receipt.number::bigint[], :added[].digest::text[],
        :added[].signed.receipt.attempt_id::text[], :added[].signed.receipt.account_id::text[],
        :added[].signed.receipt.is_last::boolean[], :added[].signed.receipt::jsonb[],
        :added[].signed.node_signature::text[], :added[].signed.countersignature::jsonb[],
        :added[].signed.server_signature::text[])
    AS one (number, digest, attempt_id, consumer_id, is_last, receipt, node_signature,
        countersignature, server_signature)
ORDER BY number

-- name: count_fork
UPDATE receipt_chains SET forks = forks + 1 WHERE node_id = :node_id AND chain = :chain

-- name: of_provider
-- In the order in which they were taken, which is the order of each chain.
SELECT id, digest, receipt, node_signature, countersignature, server_signature FROM receipts
WHERE provider_id = :selection.account_id AND id > :selection.after AND id <= :selection.until
    AND (:selection.node_id::text IS NULL OR node_id = :selection.node_id)
ORDER BY id LIMIT :limit

-- name: of_consumer
SELECT id, digest, receipt, node_signature, countersignature, server_signature FROM receipts
WHERE consumer_id = :selection.account_id AND id > :selection.after AND id <= :selection.until
    AND (:selection.node_id::text IS NULL OR node_id = :selection.node_id)
ORDER BY id LIMIT :limit

-- name: digests_of_provider
SELECT id, digest FROM receipts
WHERE provider_id = :selection.account_id AND id > :selection.after AND id <= :selection.until
    AND (:selection.node_id::text IS NULL OR node_id = :selection.node_id)
ORDER BY id LIMIT :limit

-- name: digests_of_consumer
SELECT id, digest FROM receipts
WHERE consumer_id = :selection.account_id AND id > :selection.after AND id <= :selection.until
    AND (:selection.node_id::text IS NULL OR node_id = :selection.node_id)
ORDER BY id LIMIT :limit

-- name: attempts_of_provider
-- Ended attempts, the newest first, with what is known of their receipts. One that was never fetched
-- did nothing, and has none.
SELECT attempts.id, task_id, attempts.node_id, nodes.name AS node_name, finished_at, attempts.state,
    reason, price_micro_per_hour, charge_micro, found.receipts, found.worked_ms, found.has_last
FROM attempts JOIN nodes ON nodes.id = node_id CROSS JOIN LATERAL (
    SELECT count(*) AS receipts, max((receipt ->> 'worked_ms')::bigint) AS worked_ms,
        coalesce(bool_or(is_last), false) AS has_last
    FROM receipts WHERE attempt_id = attempts.id) AS found
WHERE provider_id = :account_id AND finished_at IS NOT NULL AND fetched_at IS NOT NULL
    AND (:before_id::text IS NULL OR (finished_at, attempts.id)
        < (SELECT finished_at, id FROM attempts WHERE id = :before_id))
ORDER BY finished_at DESC, attempts.id DESC LIMIT :limit

-- name: attempts_of_consumer
-- By task: there is an index of an account's tasks, and none of its attempts.
SELECT attempts.id, task_id, attempts.node_id, nodes.name AS node_name, attempts.finished_at,
    attempts.state, attempts.reason, price_micro_per_hour, attempts.charge_micro, found.receipts,
    found.worked_ms, found.has_last
FROM tasks JOIN attempts ON task_id = tasks.id JOIN nodes ON nodes.id = node_id CROSS JOIN LATERAL (
    SELECT count(*) AS receipts, max((receipt ->> 'worked_ms')::bigint) AS worked_ms,
        coalesce(bool_or(is_last), false) AS has_last
    FROM receipts WHERE attempt_id = attempts.id) AS found
WHERE tasks.account_id = :account_id AND attempts.finished_at IS NOT NULL
    AND fetched_at IS NOT NULL
    AND (:before_id::text IS NULL OR (tasks.id, number)
        < (SELECT task_id, number FROM attempts WHERE id = :before_id))
ORDER BY tasks.id DESC, number DESC LIMIT :limit
