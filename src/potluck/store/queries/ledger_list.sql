-- An account's own ledger. A hold, a refund, a release and an epoch have two sides in the same account, one
-- per purse: the side of `available` represents both, and the other is its opposite.

-- name: place
-- The position of an entry; none, if it is not the account's.
SELECT created_at, id FROM ledger_entries WHERE id = :entry_id AND account_id = :account_id

-- name: newest
-- The newest of each kind, and of these the newest: rare kinds are not searched among millions of
-- others.
SELECT newest.id, newest.created_at, newest.kind, newest.purse, newest.amount_micro,
    newest.attempt_id, attempts.task_id, nodes.name AS node_name,
    -- The provider does not see the name of another account's task.
    tasks.name AS task_name
FROM unnest(:kinds::text[]) AS wanted (kind) CROSS JOIN LATERAL (
    SELECT * FROM ledger_entries
    WHERE account_id = :account_id AND kind = wanted.kind
        AND created_at >= :filter.since
        AND (created_at, id) < (:filter.before.at, :filter.before.id)
        AND (purse = 'available' OR kind NOT IN ('hold', 'refund', 'release', 'epoch'))
    ORDER BY created_at DESC, id DESC LIMIT :limit
) AS newest
LEFT JOIN attempts ON attempts.id = newest.attempt_id
LEFT JOIN nodes ON nodes.id = attempts.node_id
LEFT JOIN tasks ON tasks.id = attempts.task_id AND tasks.account_id = :account_id
ORDER BY newest.created_at DESC, newest.id DESC LIMIT :limit

-- name: of_task
-- The same for one task: by its few attempts, not by the account's entries.
SELECT ledger_entries.id, ledger_entries.created_at, ledger_entries.kind, purse, amount_micro,
    attempt_id, attempts.task_id, nodes.name AS node_name, tasks.name AS task_name
FROM attempts JOIN ledger_entries ON attempt_id = attempts.id
JOIN nodes ON nodes.id = attempts.node_id
LEFT JOIN tasks ON tasks.id = attempts.task_id AND tasks.account_id = :account_id
WHERE attempts.task_id = :filter.task_id AND ledger_entries.account_id = :account_id
    AND ledger_entries.kind = ANY(:kinds::text[]) AND ledger_entries.created_at >= :filter.since
    AND (ledger_entries.created_at, ledger_entries.id) < (:filter.before.at, :filter.before.id)
    AND (purse = 'available' OR ledger_entries.kind NOT IN ('hold', 'refund', 'release', 'epoch'))
ORDER BY ledger_entries.created_at DESC, ledger_entries.id DESC LIMIT :limit

-- name: summary
-- Income and spending in a period, by day or by task, and the total. Holds, refunds and releases move
-- between the purses of one account, and are neither.
SELECT sums.*, tasks.name AS task_name
FROM (
    SELECT line.day, line.task_id,
        coalesce(sum(amount_micro) FILTER (WHERE ledger_entries.kind = 'grant'), 0)::bigint
            AS granted_micro,
        coalesce(sum(amount_micro) FILTER (WHERE ledger_entries.kind = 'deposit'), 0)::bigint
            AS deposited_micro,
        coalesce(-sum(amount_micro) FILTER (WHERE ledger_entries.kind = 'epoch'
            AND purse = 'available'), 0)::bigint AS set_aside_micro,
        coalesce(-sum(amount_micro) FILTER (WHERE ledger_entries.kind = 'charge'
            OR ledger_entries.kind = 'reversal' AND purse = 'available'), 0)::bigint AS spent_micro,
        coalesce(sum(amount_micro) FILTER (WHERE ledger_entries.kind IN ('reward', 'fee')
            OR ledger_entries.kind = 'reversal' AND purse = 'held_back'), 0)::bigint AS earned_micro,
        count(*) AS entries, max(ledger_entries.created_at) AS newest_at,
        grouping(line.day, line.task_id) > 0 AS is_total
    FROM ledger_entries LEFT JOIN attempts ON attempts.id = attempt_id,
    LATERAL (
        SELECT CASE WHEN :by_day THEN (ledger_entries.created_at AT TIME ZONE 'UTC')::date END
                AS day,
            CASE WHEN NOT :by_day THEN attempts.task_id END AS task_id
    ) AS line
    WHERE ledger_entries.account_id = :account_id
        AND ledger_entries.kind IN ('grant', 'deposit', 'charge', 'reward', 'reversal', 'fee', 'epoch')
        AND ledger_entries.created_at >= :since AND ledger_entries.created_at < :until
    GROUP BY GROUPING SETS ((line.day, line.task_id), ())
) AS sums
LEFT JOIN tasks ON tasks.id = sums.task_id AND tasks.account_id = :account_id
ORDER BY is_total DESC, newest_at DESC, sums.task_id
LIMIT :limit

-- name: is_free
-- Whether every device is free of charge.
SELECT NOT EXISTS (
    SELECT FROM devices JOIN nodes ON nodes.id = node_id
    WHERE price_micro_per_hour > 0 AND is_present AND nodes.state <> 'left'
)
