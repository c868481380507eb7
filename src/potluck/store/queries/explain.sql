-- name: node
-- Only for its owner. The conditions under which the leader does not plan with it.
SELECT state, is_polling, finished_attempts, lost_attempts, outlier_attempts,
    cordoned_at IS NOT NULL AS is_cordoned, cordoned_for,
    (SELECT count(*) FROM attempts WHERE node_id = nodes.id AND finished_at IS NULL) AS running
FROM nodes WHERE id = :node_id AND account_id = :account_id

-- name: devices
SELECT id, model, standing, availability, why FROM devices
WHERE node_id = :node_id AND is_present
ORDER BY position
