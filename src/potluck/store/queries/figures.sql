-- Figures of the whole pool, for metrics. Read by the leader at an interval.

-- name: nodes
-- An owner who switches a machine off for good would otherwise leave it missing for ever.
SELECT count(*) FILTER (WHERE state = 'online') AS online,
    count(*) FILTER (WHERE state = 'silent') AS silent,
    count(*) FILTER (WHERE state = 'silent' AND heartbeat_at > now() - :missing::interval)
        AS missing
FROM nodes WHERE state <> 'left'

-- name: devices
-- Each has one state: the first reason why it gets no work, or whether it has some.
SELECT kind, state, count(*) AS devices, sum(1000 - free_milli) AS used_milli
FROM (
    SELECT devices.kind, free_milli, CASE
        WHEN nodes.state = 'silent' THEN 'silent'
        WHEN standing <> 'bound' THEN 'unbound'
        WHEN cordoned_at IS NOT NULL THEN 'cordoned'
        WHEN availability <> 'available' THEN availability
        WHEN free_milli < 1000 THEN 'busy'
        ELSE 'free' END AS state
    FROM devices JOIN nodes ON nodes.id = node_id
    WHERE is_present AND nodes.state <> 'left'
) AS device
GROUP BY kind, state

-- name: attempts
SELECT state, count(*) AS attempts FROM attempts WHERE finished_at IS NULL GROUP BY state

-- name: balances
-- The platform has no balance: its side is the sum of its entries, if they are few. Fees and payouts
-- are many, and accounts know what they gave and got.
SELECT coalesce(sum(available_micro), 0) AS available,
    coalesce(sum(held_micro), 0) AS held,
    coalesce(sum(held_back_micro), 0) AS held_back,
    coalesce(sum(claimable_micro), 0) AS claimable,
    coalesce(sum(fee_micro), 0) AS fees,
    coalesce(sum(paid_micro), 0) AS paid,
    (SELECT coalesce(sum(amount_micro), 0) FROM ledger_entries
        WHERE account_id IS NULL AND kind = 'grant') AS issued,
    (SELECT coalesce(-sum(amount_micro), 0) FROM chain_deposits
        WHERE credited_at IS NOT NULL) AS deposited
FROM balances

-- name: contracts
SELECT contract, greatest(coalesce(head_block, scanned_block) - scanned_block, 0) AS lag_blocks,
    halted_at IS NOT NULL AS is_stopped,
    coalesce(extract(epoch FROM now() - least(waits_since, (SELECT min(created_at)
        FROM chain_transactions WHERE settled_at IS NULL
            AND chain_transactions.chain_id = chain_contracts.chain_id
            AND chain_transactions.contract = chain_contracts.contract))), 0)::float8 AS wait_seconds
FROM chain_contracts

-- name: outbox
SELECT count(*) AS events,
    coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 AS lag_seconds
FROM (
    (SELECT created_at FROM events WHERE place IS NULL ORDER BY id LIMIT :limit)
    UNION ALL
    (SELECT created_at FROM events WHERE place > (SELECT told FROM event_head)
    ORDER BY place LIMIT :limit)
    LIMIT :limit
) AS unannounced

-- name: ledger_end
-- The last entry that is older than every open transaction.
SELECT coalesce(max(id), 0) AS last_id FROM (
    SELECT id FROM ledger_entries WHERE created_at < now() - :settled::interval
    ORDER BY id DESC LIMIT 1
) AS entry

-- name: moved
-- The larger side of each kind: some kinds have both sides, some have one. Entries get their ids
-- before they are committed, so the newest ones are left for the next time.
SELECT kind, max(id) AS last_id, count(*) AS entries,
    greatest(
        coalesce(sum(amount_micro) FILTER (WHERE amount_micro > 0), 0),
        -coalesce(sum(amount_micro) FILTER (WHERE amount_micro < 0), 0))::bigint AS moved_micro
FROM (
    SELECT id, kind, amount_micro FROM ledger_entries
    WHERE id > :after_id AND created_at < now() - :settled::interval
    ORDER BY id LIMIT :limit
) AS entry
GROUP BY kind
