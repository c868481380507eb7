-- name: add
WITH account AS (
    INSERT INTO accounts (id, name, is_operator) VALUES ($1, $2, $3)
    -- A name is one account's, and there is one operator.
    ON CONFLICT DO NOTHING
    RETURNING id
)
INSERT INTO balances (account_id) SELECT id FROM account RETURNING account_id

-- name: operator
SELECT id FROM accounts WHERE is_operator

-- name: add_token
INSERT INTO tokens (hash, account_id) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: by_token
SELECT accounts.id, name, is_operator
FROM tokens JOIN accounts ON accounts.id = account_id
WHERE hash = $1

-- name: balance
SELECT available_micro, held_micro FROM balances WHERE account_id = $1
