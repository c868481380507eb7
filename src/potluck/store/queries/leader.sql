-- name: lead
-- Renews the own term, or takes over one that has run out; the gap tells for how long nobody led.
-- Who stands by locks nothing, and so waits for nobody.
WITH before AS (
    SELECT holder, term, renewed_at, expires_at FROM leader
    WHERE holder = $1 OR expires_at <= now()
    FOR UPDATE
)
UPDATE leader SET
    holder = $1,
    term = CASE WHEN before.holder = $1 AND before.expires_at > now()
        THEN before.term ELSE before.term + 1 END,
    renewed_at = now(),
    expires_at = now() + $2::interval
FROM before
RETURNING leader.term, leader.term <> before.term AS is_new, before.expires_at AS led_until

-- name: holds
-- Shared with other work of this term; whoever takes over waits until it is done.
SELECT FROM leader WHERE holder = $1 AND term = $2 AND expires_at > now() FOR SHARE

-- name: resign
UPDATE leader SET expires_at = now() WHERE holder = $1

-- name: is_led
SELECT expires_at > now() FROM leader

-- name: remaining
SELECT extract(epoch FROM expires_at - clock_timestamp())::double precision FROM leader
WHERE isfinite(expires_at)
