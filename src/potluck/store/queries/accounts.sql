-- name: add
-- No row if the wallet already has an account.
WITH account AS (
    INSERT INTO accounts (id, address, roles) VALUES (:account_id, :address, :roles)
    ON CONFLICT (address) DO NOTHING
    RETURNING *
), balance AS (
    INSERT INTO balances (account_id) SELECT id FROM account
)
SELECT * FROM account

-- name: by_address
SELECT * FROM accounts WHERE address = :address

-- name: by_id
SELECT * FROM accounts WHERE id = :account_id

-- name: has_admin
SELECT EXISTS (SELECT FROM accounts WHERE 'admin' = ANY (roles) AND suspended_at IS NULL)

-- name: other_admins
SELECT count(*) FROM accounts
WHERE 'admin' = ANY (roles) AND suspended_at IS NULL AND id <> :account_id

-- name: lock_admins
-- In id order, so that two admins who demote each other do not both succeed.
SELECT id FROM accounts WHERE 'admin' = ANY (roles) ORDER BY id FOR UPDATE

-- name: set_roles
UPDATE accounts SET roles = :roles WHERE id = :account_id RETURNING *

-- name: choose_roles
-- The admin role is not the account's choice, and may change concurrently.
UPDATE accounts SET roles = array_remove(:roles, 'admin')
    || CASE WHEN 'admin' = ANY (roles) THEN ARRAY['admin'] ELSE '{}' END
WHERE id = :account_id RETURNING *

-- name: add_role
UPDATE accounts SET roles = array_append(array_remove(roles, :role), :role)
WHERE id = :account_id RETURNING *

-- name: suspend
UPDATE accounts SET suspended_at = coalesce(suspended_at, now()), suspended_for = :reason
WHERE id = :account_id RETURNING *

-- name: resume
UPDATE accounts SET suspended_at = NULL, suspended_for = '' WHERE id = :account_id RETURNING *

-- name: summary
-- An account that has never stored anything has no row of its use.
SELECT weight, max_running_devices, max_queued_tasks, max_priority, max_blob_bytes,
    available_micro, held_micro, coalesce(used_bytes, 0) AS used_bytes
FROM accounts JOIN balances ON balances.account_id = accounts.id
    LEFT JOIN blob_use ON blob_use.account_id = accounts.id
WHERE accounts.id = :account_id

-- name: set_quota
UPDATE accounts SET weight = :quota.weight, max_running_devices = :quota.max_running_devices,
    max_queued_tasks = :quota.max_queued_tasks, max_priority = :quota.max_priority,
    max_blob_bytes = :quota.max_blob_bytes
WHERE id = :account_id RETURNING *

-- name: set_label
UPDATE accounts SET label = :label WHERE id = :account_id RETURNING *

-- name: lock_balance
SELECT available_micro FROM balances WHERE account_id = :account_id FOR UPDATE

-- name: page
SELECT accounts.*, available_micro, held_micro
FROM accounts JOIN balances ON account_id = accounts.id
WHERE accounts.id > :after_id ORDER BY accounts.id LIMIT :limit

-- name: balance
SELECT available_micro, held_micro, held_back_micro FROM balances WHERE account_id = :account_id

-- name: tasks_of_suspended
SELECT tasks.account_id, tasks.id
FROM accounts JOIN tasks ON tasks.account_id = accounts.id
WHERE suspended_at IS NOT NULL AND finished_at IS NULL
ORDER BY tasks.id LIMIT 1000

-- name: nodes_of_suspended
SELECT nodes.account_id, nodes.node_key_id, nodes.id
FROM accounts JOIN nodes ON nodes.account_id = accounts.id
WHERE suspended_at IS NOT NULL AND state <> 'left'
ORDER BY nodes.id LIMIT 1000
