-- name: lead
-- Renews the own term, or takes over an expired one; the end of the previous term is kept during
-- the term. A standby locks nothing, and so never waits.
WITH before AS (
    SELECT holder = :holder AND expires_at > now() AS goes_on, expires_at FROM leader
    WHERE holder = :holder OR expires_at <= now()
    FOR UPDATE
)
UPDATE leader SET
    holder = :holder,
    term = CASE WHEN before.goes_on THEN term ELSE term + 1 END,
    led_until = CASE WHEN before.goes_on THEN led_until ELSE before.expires_at END,
    renewed_at = now(),
    expires_at = now() + :term_duration::interval
FROM before
RETURNING leader.term, leader.led_until

-- name: holds
-- Shared with other work of this term; a takeover waits until it is done. So does the renewal:
-- nothing that holds this row may wait for long.
SELECT set_config('lock_timeout', '1s', true) FROM leader
WHERE holder = :leadership.holder AND term = :leadership.term AND expires_at > now() FOR SHARE

-- name: resign
UPDATE leader SET expires_at = now() WHERE holder = :holder

-- name: remaining
SELECT extract(epoch FROM expires_at - clock_timestamp())::double precision FROM leader
WHERE isfinite(expires_at)
