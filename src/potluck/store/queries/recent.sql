-- Recent device usage of accounts.

-- name: uses
-- A page of attempts, newest first. Ids sort by time, so a day is a range of the primary key.
SELECT page.id, consumer_id AS account_id, share.milli,
    extract(epoch FROM assigned_at)::double precision AS began_at,
    extract(epoch FROM finished_at)::double precision AS ended_at
FROM (
    SELECT id, consumer_id, assigned_at, finished_at FROM attempts
    WHERE id >= :since_id AND id < :before_id
    ORDER BY id DESC
    LIMIT :limit
) AS page, LATERAL (
    SELECT coalesce(sum(milli), 0)::integer AS milli FROM attempt_devices
    WHERE attempt_id = page.id
) AS share
ORDER BY page.id DESC

-- name: long_uses
-- The same for those that still run, or ended after `since` and ran for more than an hour.
SELECT page.id, consumer_id AS account_id, share.milli,
    extract(epoch FROM assigned_at)::double precision AS began_at,
    extract(epoch FROM finished_at)::double precision AS ended_at
FROM (
    SELECT id, consumer_id, assigned_at, finished_at FROM attempts
    WHERE finished_at >= :since AND id < :before_id AND finished_at - assigned_at > interval '1 h'
    UNION ALL
    SELECT id, consumer_id, assigned_at, finished_at FROM attempts
    WHERE id < :before_id AND finished_at IS NULL AND has_share
    ORDER BY id DESC
    LIMIT :limit
) AS page, LATERAL (
    SELECT coalesce(sum(milli), 0)::integer AS milli FROM attempt_devices
    WHERE attempt_id = page.id
) AS share
ORDER BY page.id DESC
