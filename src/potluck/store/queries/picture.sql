-- name: tasks
SELECT id, state FROM tasks

-- name: attempts
SELECT id, task_id, node_id, state, hold_micro, cores, memory_bytes, disk_bytes,
    coalesce((
        SELECT sum(amount_micro) FROM ledger_entries WHERE attempt_id = attempts.id AND purse = 'held'
    ), 0)::bigint AS held_micro
FROM attempts

-- name: nodes
SELECT id, used_cores, used_memory_bytes, used_disk_bytes FROM nodes

-- name: devices
SELECT devices.id, 1000 - free_milli AS used_milli,
    coalesce(sum(milli) FILTER (WHERE finished_at IS NULL AND attempts.id IS NOT NULL), 0)
        ::bigint AS reserved_milli
FROM devices
LEFT JOIN attempt_devices ON device_id = devices.id
LEFT JOIN attempts ON attempts.id = attempt_id
GROUP BY devices.id

-- name: purses
SELECT balances.account_id, available_micro, held_micro,
    coalesce(sum(amount_micro) FILTER (WHERE purse = 'available'), 0)::bigint
        AS entries_available_micro,
    coalesce(sum(amount_micro) FILTER (WHERE purse = 'held'), 0)::bigint AS entries_held_micro
FROM balances LEFT JOIN ledger_entries USING (account_id)
GROUP BY balances.account_id

-- name: entries_sum
SELECT coalesce(sum(amount_micro), 0)::bigint FROM ledger_entries
