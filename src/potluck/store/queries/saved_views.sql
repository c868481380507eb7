-- name: read
SELECT views FROM saved_views WHERE account_id = :account_id

-- name: write
INSERT INTO saved_views (account_id, views) VALUES (:account_id, :views)
ON CONFLICT (account_id) DO UPDATE SET views = excluded.views, updated_at = now()
