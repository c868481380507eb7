-- name: node
-- Only its owner is told. How it stands, which the leader does not plan with if it is not well.
SELECT state, is_polling,
    (SELECT count(*) FROM attempts WHERE node_id = nodes.id AND finished_at IS NULL) AS running
FROM nodes WHERE id = :node_id AND account_id = :account_id

-- name: devices
SELECT id, model, standing, availability, why FROM devices
WHERE node_id = :node_id AND is_present
ORDER BY position
