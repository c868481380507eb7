-- name: add
WITH account AS (
    INSERT INTO accounts (id, name, is_operator, token_hash) VALUES ($1, $2, $3, $4)
    ON CONFLICT DO NOTHING
    RETURNING id
)
INSERT INTO balances (account_id) SELECT id FROM account RETURNING account_id

-- name: by_token
SELECT id, name, is_operator FROM accounts WHERE token_hash = $1

-- name: replace_operator_token
UPDATE accounts SET token_hash = $1 WHERE is_operator RETURNING id

-- name: balance
SELECT available_micro, held_micro FROM balances WHERE account_id = $1
