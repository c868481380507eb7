-- Data for the invariant check: everything, or the named rows. Sets of items, and lists of them, go
-- as text: drivers cannot decode lists of multiranges.

-- name: one_moment
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ

-- name: all_tasks
SELECT id FROM tasks

-- name: all_attempts
SELECT id FROM attempts

-- name: all_nodes
SELECT id FROM nodes

-- name: all_accounts
SELECT account_id AS id FROM balances

-- name: tasks
SELECT tasks.id, state, reason, waits_for, items, allow_failures, items_succeeded, items_failed,
    pending::text AS pending, cancelled::text AS cancelled, open_until IS NOT NULL AS is_open,
    ARRAY(SELECT item FROM failed_items WHERE task_id = tasks.id AND is_final ORDER BY item) AS failed,
    ARRAY(
        SELECT remaining::text FROM attempts
        WHERE task_id = tasks.id AND finished_at IS NULL ORDER BY id
    ) AS remaining,
    (SELECT count(*) FROM attempts WHERE task_id = tasks.id AND attempts.state = 'succeeded')
        AS accepted,
    (SELECT count(*) FROM dependencies WHERE task_id = tasks.id) AS dependencies
FROM tasks WHERE id = ANY(:part.task_ids) ORDER BY id

-- name: histories
-- Without an index: only for tests, which read everything.
SELECT task_id AS id, array_agg(
    CASE WHEN kind = 'task.finished' THEN data ->> 'state' ELSE split_part(kind, '.', 2) END
    ORDER BY id) AS states
FROM events WHERE kind LIKE 'task.%' AND task_id = ANY(:task_ids) GROUP BY task_id

-- name: attempts
SELECT attempts.id, state, hold_micro, charge_micro, adoptions + 1 AS lives,
    coalesce(sum(amount_micro) FILTER (WHERE purse = 'held'), 0)::bigint AS held_micro,
    held_back_micro,
    coalesce(-sum(amount_micro) FILTER (WHERE kind = 'charge'
        OR kind = 'reversal' AND purse = 'available'), 0)::bigint AS charged_micro,
    coalesce(sum(amount_micro) FILTER (WHERE purse = 'held_back'), 0)::bigint
        AS entries_held_back_micro,
    coalesce(max(adoption + 1) FILTER (WHERE kind = 'refund'), 0) AS settled
FROM attempts LEFT JOIN ledger_entries ON attempt_id = attempts.id
WHERE attempts.id = ANY(:part.attempt_ids) GROUP BY attempts.id ORDER BY attempts.id

-- name: nodes
SELECT nodes.id, used_cores, used_memory_bytes, used_disk_bytes,
    coalesce(sum(attempts.cores), 0)::bigint AS reserved_cores,
    coalesce(sum(attempts.memory_bytes), 0)::bigint AS reserved_memory_bytes,
    coalesce(sum(attempts.disk_bytes), 0)::bigint AS reserved_disk_bytes
FROM nodes LEFT JOIN attempts ON node_id = nodes.id AND finished_at IS NULL AND has_share
WHERE nodes.id = ANY(:part.node_ids) GROUP BY nodes.id ORDER BY nodes.id

-- name: devices
SELECT devices.id, 1000 - free_milli AS used_milli, devices.used_memory_bytes,
    coalesce(sum(share.milli), 0)::bigint AS reserved_milli,
    coalesce(sum(share.memory_bytes), 0)::bigint AS reserved_memory_bytes,
    count(DISTINCT share.consumer_id) AS accounts,
    -- An owner who closes a device to others keeps its current users; a newcomer must have been
    -- admitted beside the earlier one.
    may_serve_several(kind, description, false) OR coalesce(bool_and(share.agrees), false)
        AND count(DISTINCT share.consumer_id) FILTER (WHERE NOT share.may_stand_beside) <= 1
        AS may_serve_several
FROM devices LEFT JOIN (
    SELECT device_id, milli, attempt_devices.memory_bytes, consumer_id, may_stand_beside,
        shares_device(requirements) AS agrees
    FROM attempt_devices
        JOIN attempts ON attempts.id = attempt_id AND finished_at IS NULL AND has_share
        JOIN tasks ON tasks.id = task_id
) AS share ON device_id = devices.id
WHERE devices.node_id = ANY(:part.node_ids) GROUP BY devices.id ORDER BY devices.id

-- name: quick_to_add_up
-- Those of the accounts with at most this many entries; reads no more than that.
SELECT account_id AS id FROM unnest(:part.account_ids::text[]) AS account (account_id)
WHERE (SELECT count(*) FROM (
    SELECT FROM ledger_entries WHERE ledger_entries.account_id = account.account_id
        LIMIT :max_entries + 1
) AS entry) <= :max_entries

-- name: purses
SELECT balances.account_id, available_micro, held_micro, held_back_micro, claimable_micro,
    balances.earned_micro, balances.fee_micro, paid_micro, counted_earned_micro, counted_fee_micro,
    coalesce(sum(amount_micro) FILTER (WHERE purse = 'available'), 0)::bigint
        AS entries_available_micro,
    coalesce(sum(amount_micro) FILTER (WHERE purse = 'held'), 0)::bigint AS entries_held_micro,
    coalesce(sum(amount_micro) FILTER (WHERE purse = 'held_back'), 0)::bigint
        AS entries_held_back_micro,
    coalesce(sum(amount_micro) FILTER (WHERE purse = 'claimable'), 0)::bigint
        AS entries_claimable_micro,
    coalesce(sum(amount_micro) FILTER (WHERE purse = 'available'
        AND kind IN ('reward', 'release')), 0)::bigint AS entries_earned_micro,
    coalesce(-sum(amount_micro) FILTER (WHERE kind = 'fee'), 0)::bigint AS entries_fee_micro,
    coalesce((SELECT sum(payouts.amount_micro) FROM payouts
        WHERE payouts.account_id = balances.account_id), 0)::bigint AS payouts_micro,
    coalesce((SELECT sum(epoch_rewards.amount_micro) FROM epoch_rewards
        WHERE epoch_rewards.account_id = balances.account_id), 0)::bigint AS set_aside_micro,
    assigned_micro,
    -- By contract, of which there are few: rewards are found by contract and account.
    coalesce((SELECT sum(chain_rewards.amount_micro)
        FROM chain_contracts JOIN chain_rewards USING (chain_id, contract)
        WHERE chain_rewards.account_id = balances.account_id), 0)::bigint
    - coalesce((SELECT sum(payouts.amount_micro)
        FROM payouts JOIN chain_claims ON payout_id = payouts.id
        WHERE payouts.account_id = balances.account_id), 0)::bigint AS roots_micro
FROM balances LEFT JOIN ledger_entries USING (account_id)
WHERE balances.account_id = ANY(:part.account_ids)
GROUP BY balances.account_id ORDER BY balances.account_id

-- name: entries_sum
SELECT coalesce(sum(amount_micro), 0)::bigint FROM ledger_entries
