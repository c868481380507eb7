-- Alerts, their silences and messages, and the readings that they come from.

-- name: lock
-- One instance at a time changes alerts: the leader, or while there is none, any.
SELECT pg_advisory_xact_lock(7046029254386353132), clock_timestamp() AS now

-- name: open
-- Those that can still change or be told. The rest is history.
SELECT * FROM alerts
WHERE state <> 'resolved' OR resolved_at > now() - interval '1 day'
    AND told_at IS NOT NULL AND resolve_told_at IS NULL
ORDER BY id

-- name: add
INSERT INTO alerts (name, subject, state, detail, account_id, node_id, began_at, fired_at, told_at)
SELECT name, subject, state, detail, account_id, node_id, began_at, fired_at, told_at
FROM unnest(:alerts[].name::text[], :alerts[].subject::text[], :alerts[].state::text[],
    :alerts[].detail::text[], :alerts[].account_id::text[], :alerts[].node_id::text[],
    :alerts[].began_at::timestamptz[], :alerts[].fired_at::timestamptz[],
    :alerts[].notified_at::timestamptz[])
    AS alert (name, subject, state, detail, account_id, node_id, began_at, fired_at, told_at)
ON CONFLICT DO NOTHING

-- name: change
UPDATE alerts SET state = alert.state, detail = alert.detail, fired_at = alert.fired_at,
    resolved_at = alert.resolved_at
FROM unnest(:alerts[].id::bigint[], :alerts[].state::text[], :alerts[].detail::text[],
    :alerts[].fired_at::timestamptz[], :alerts[].resolved_at::timestamptz[])
    AS alert (id, state, detail, fired_at, resolved_at)
WHERE alerts.id = alert.id

-- name: drop
DELETE FROM alerts WHERE id = ANY(:ids::bigint[])

-- name: mark_notified
UPDATE alerts SET
    told_at = CASE WHEN state = 'firing' THEN :now ELSE told_at END,
    resolve_told_at = CASE WHEN state = 'resolved' THEN :now END
WHERE id = ANY(:ids::bigint[])

-- name: violated
-- What was violated when it was last checked, and the nodes of such devices.
SELECT coalesce(devices.node_id, subject) AS subject
FROM alerts LEFT JOIN devices ON devices.id = subject
WHERE state <> 'resolved' AND name IN ('InvariantViolated', 'LedgerImbalance')
ORDER BY alerts.id LIMIT :limit

-- name: drop_pending
DELETE FROM alerts WHERE name = :alert.name AND subject = :alert.subject AND state = 'pending'

-- name: mark_outage_notified
-- Another instance recorded it, before or after this one told it.
UPDATE alerts SET told_at = greatest(told_at, :alert.notified_at::timestamptz)
WHERE name = :alert.name AND subject = :alert.subject
    AND (state = 'firing' OR resolved_at >= :alert.began_at)

-- name: record_outage
-- Of the database itself, when it is back. Several instances record it, and only the first counts.
INSERT INTO alerts (name, subject, state, detail, began_at, fired_at, told_at)
SELECT :alert.name, :alert.subject, 'firing', :alert.detail, :alert.began_at, :alert.fired_at,
    :alert.notified_at
WHERE NOT EXISTS (
    SELECT FROM alerts WHERE name = :alert.name AND subject = :alert.subject
        AND (state <> 'resolved' OR resolved_at >= :alert.began_at))
ON CONFLICT DO NOTHING

-- name: online_of
SELECT id FROM nodes WHERE id = ANY(:node_ids::text[]) AND state = 'online'

-- name: latest_id
SELECT coalesce(max(id), 0) FROM alerts WHERE name = ANY(:names::text[]) AND subject = :subject

-- name: page
SELECT * FROM alerts WHERE id < :before_id
ORDER BY id DESC LIMIT :limit

-- name: delete_old
WITH gone AS (
    DELETE FROM alerts WHERE id IN (
        SELECT id FROM alerts WHERE state = 'resolved' AND resolved_at <= now() - :kept::interval
        ORDER BY resolved_at LIMIT :limit)
    RETURNING id
)
SELECT count(*) FROM gone

-- name: silences
SELECT * FROM alert_silences WHERE until > now() ORDER BY id

-- name: add_silence
INSERT INTO alert_silences (id, name, subject, until, author_id, comment)
VALUES (:silence_id, :name, :subject, now() + :duration::interval, :author_id, :comment)
RETURNING *

-- name: end_silence
UPDATE alert_silences SET until = now() WHERE id = :silence_id AND until > now() RETURNING id

-- name: delete_old_silences
WITH gone AS (
    DELETE FROM alert_silences WHERE id IN (
        SELECT id FROM alert_silences WHERE until <= now() - :kept::interval LIMIT :limit)
    RETURNING id
)
SELECT count(*) FROM gone

-- name: add_messages
INSERT INTO alert_messages (destination, title, body, is_resolved)
SELECT destination, title, body, is_resolved
FROM unnest(:messages[].destination::text[], :messages[].title::text[], :messages[].body::text[],
    :messages[].is_resolved::boolean[])
    WITH ORDINALITY AS message (destination, title, body, is_resolved, place)
ORDER BY place

-- name: claim
-- The first unsent message of each destination, so that they arrive in order. A claim that ran out
-- is of an instance that has died.
WITH heads AS (
    SELECT DISTINCT ON (destination) id FROM alert_messages
    WHERE ended_at IS NULL AND destination = ANY(:destinations::text[])
    ORDER BY destination, id
), free AS (
    SELECT id FROM alert_messages
    WHERE id IN (SELECT id FROM heads) AND due_at <= now() AND ended_at IS NULL
        AND (claimed_until IS NULL OR claimed_until <= now())
    FOR UPDATE SKIP LOCKED
)
UPDATE alert_messages SET claimed_until = now() + :duration::interval, attempts = attempts + 1
FROM free WHERE alert_messages.id = free.id
RETURNING alert_messages.*

-- name: sent
UPDATE alert_messages SET ended_at = now(), is_sent = true, claimed_until = NULL
WHERE id = :message_id

-- name: failed
-- Given up when it is too old.
UPDATE alert_messages SET claimed_until = NULL, due_at = now() + :pause::interval,
    ended_at = CASE WHEN created_at <= now() - :give_up::interval THEN now() END
WHERE id = :message_id
RETURNING ended_at IS NOT NULL AS is_given_up

-- name: delete_old_messages
WITH gone AS (
    DELETE FROM alert_messages WHERE id IN (
        SELECT id FROM alert_messages WHERE created_at <= now() - :kept::interval LIMIT :limit)
    RETURNING id
)
SELECT count(*) FROM gone

-- name: put_reading
INSERT INTO instance_readings (instance_name, reading, read_at)
VALUES (:reading.instance_name, :reading, now())
ON CONFLICT (instance_name) DO UPDATE SET reading = excluded.reading, read_at = excluded.read_at

-- name: readings
SELECT reading FROM instance_readings WHERE read_at > now() - :age::interval ORDER BY instance_name

-- name: delete_old_readings
WITH gone AS (
    DELETE FROM instance_readings WHERE instance_name IN (
        SELECT instance_name FROM instance_readings WHERE read_at <= now() - :kept::interval
        LIMIT :limit)
    RETURNING instance_name
)
SELECT count(*) FROM gone

-- name: record_term
INSERT INTO leader_terms (term, holder) VALUES (:leadership.term, :leadership.holder)
ON CONFLICT DO NOTHING

-- name: terms_begun
SELECT count(*) FROM leader_terms WHERE began_at > now() - :age::interval

-- name: delete_old_terms
WITH gone AS (
    DELETE FROM leader_terms WHERE term IN (
        SELECT term FROM leader_terms WHERE began_at <= now() - :kept::interval LIMIT :limit)
    RETURNING term
)
SELECT count(*) FROM gone

-- name: lost_nodes
-- A node that was away for very long has gone for good; another wallet may have its devices then.
-- Known ones first: an alert must not end because there are too many.
SELECT id, account_id, name AS node_name, heartbeat_at FROM nodes
WHERE state = 'silent' AND heartbeat_at > now() - :lapse::interval
ORDER BY EXISTS (SELECT FROM alerts
    WHERE alerts.name = 'NodeLost' AND subject = nodes.id AND alerts.state <> 'resolved') DESC,
    heartbeat_at DESC
LIMIT :limit

-- name: devices
SELECT devices.id, account_id, node_id, nodes.name AS node_name, model,
    CASE WHEN availability = 'sick' THEN why END AS sick_because,
    CASE WHEN hot_since IS NOT NULL THEN hot_celsius END AS hot_celsius
FROM devices JOIN nodes ON nodes.id = node_id
WHERE (hot_since IS NOT NULL OR availability = 'sick') AND is_present AND nodes.state = 'online'
ORDER BY EXISTS (SELECT FROM alerts
    WHERE alerts.name IN ('DeviceSick', 'DeviceHot') AND subject = devices.id
        AND alerts.state <> 'resolved') DESC,
    devices.id
LIMIT :limit

-- name: has_online_node
SELECT EXISTS (SELECT FROM nodes WHERE state = 'online')

-- name: mark_heat
UPDATE devices SET
    hot_since = CASE WHEN heat.is_hot THEN coalesce(hot_since, now()) END,
    hot_celsius = heat.celsius
FROM unnest(:uuids::text[], :are_hot::boolean[], :celsius::double precision[])
    AS heat (uuid, is_hot, celsius)
WHERE node_id = :node_id AND devices.uuid = heat.uuid AND (hot_since IS NOT NULL) <> heat.is_hot

-- name: rewards
-- How late the open epoch is, and the oldest part of an epoch that neither payouts nor roots of
-- contracts cover. Without an epoch that is over and without claimable rewards all are zero.
WITH late AS (
    -- Without what is in roots of contracts: its wallets claim it when they like.
    SELECT claimable_micro - assigned_micro AS claimable_micro, (
        SELECT min(closed_at) FROM epoch_rewards JOIN epochs ON number = epoch
        WHERE epoch_rewards.account_id = balances.account_id
            AND epoch_rewards.amount_micro > 0
            AND epoch_rewards.cumulative_micro > paid_micro + assigned_micro) AS closed_at
    FROM balances WHERE claimable_micro > assigned_micro
)
SELECT coalesce(max(number), 0) AS epoch,
    greatest(0, extract(epoch FROM now() - min(ends_at)))::double precision AS epoch_overdue_seconds,
    coalesce((SELECT extract(epoch FROM now() - min(closed_at)) FROM late), 0)::double precision
        AS payout_age_seconds,
    (SELECT count(*) FROM late)::integer AS late_accounts,
    coalesce((SELECT sum(claimable_micro) FROM late), 0)::bigint AS claimable_micro
FROM epochs WHERE closed_at IS NULL
