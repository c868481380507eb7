-- name: tasks
SELECT id, state FROM tasks

-- name: attempts
SELECT id, task_id, node_id, state, settled_at IS NOT NULL AS is_settled, hold_micro, cores,
    memory_bytes, disk_bytes
FROM attempts

-- name: nodes
SELECT id, cores - free_cores AS used_cores, memory_bytes - free_memory_bytes AS used_memory_bytes,
    disk_bytes - free_disk_bytes AS used_disk_bytes
FROM nodes

-- name: devices
SELECT devices.id, 1000 - free_milli AS used_milli,
    coalesce(sum(milli) FILTER (WHERE attempts.state IN ('granted', 'preparing', 'running')), 0)
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
