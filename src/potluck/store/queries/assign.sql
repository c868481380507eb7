-- A batch of assignments is one transaction. Rows are locked in the order of attempts.sql: first
-- the leader's, then all tasks of the batch, then all nodes; so it cannot deadlock with reports and
-- cancellations, however many rows it holds.

-- `|| ''` keeps a condition from being looked up in an index that has every node of an account, or every
-- device that is offered: the planner would read all of it where it knows of few.

-- name: lock
-- The term, shared as in `leader.holds`, and while it runs all rows of the batch, one kind after
-- the other: the count makes sure that all rows of a kind are locked before the next kind.
WITH term AS (
    SELECT set_config('lock_timeout', '1s', true) FROM leader
    WHERE holder = :leadership.holder AND term = :leadership.term AND expires_at > now()
    FOR SHARE
), task AS (
    SELECT FROM tasks
    WHERE id = ANY(:task_ids::text[]) AND (SELECT count(*) FROM term) = 1
    ORDER BY id FOR UPDATE
), node AS (
    SELECT FROM nodes
    WHERE id = ANY(:node_ids::text[]) AND (SELECT count(*) FROM task) >= 0
    ORDER BY id FOR UPDATE
), device AS (
    SELECT FROM devices
    WHERE id = ANY(:device_ids::text[]) AND (SELECT count(*) FROM node) >= 0
    ORDER BY id FOR UPDATE
)
SELECT (SELECT count(*) FROM device) >= 0 AND EXISTS (SELECT FROM term) AS holds

-- name: assign
-- The guarded assign, in one statement: either all of it still holds, or nothing changes. An
-- earlier statement has locked the rows, so everything read beside them is as recent as they are.
WITH term AS (
    -- An old leader's plan has no effect.
    SELECT FROM leader
    WHERE leader.term = :leadership.term AND holder = :leadership.holder AND expires_at > now()
    FOR SHARE
), task AS (
    SELECT id, account_id, kind, state, coalesce(requirements -> 'owners', '[]') AS owners
    FROM tasks
    WHERE id = :assignment.task_id AND EXISTS (SELECT FROM term)
        -- A single task is queued; of an array, these items are not granted yet.
        AND CASE WHEN :items::int4range IS NULL THEN items IS NULL AND state = 'queued'
            ELSE pending @> :items AND state IN ('queued', 'assigned', 'running') END
        AND waits_for = 0 AND coalesce(not_before <= now(), true)
        AND (started_at IS NOT NULL OR coalesce(start_before > now(), true))
    FOR UPDATE
), node AS (
    SELECT id, account_id FROM nodes
    WHERE id = :assignment.node_id AND state || '' = 'online' AND is_polling AND cordoned_at IS NULL
        -- Without a sandbox that limits memory and processes a node runs only its owner's code.
        AND (account_id = (SELECT account_id FROM task) OR NOT (own_tasks_only OR (
            (SELECT kind FROM task) = 'container'
            AND coalesce('none' IN (description #>> '{containers,memory}',
                description #>> '{containers,processes}'), false))))
        -- Nor does it get secrets that are not for its owner.
        AND (SELECT owners = '[]' OR owners ? lower(address) FROM task, accounts
            WHERE accounts.id = nodes.account_id)
        AND cores - used_cores >= :assignment.requirements.cores
        AND memory_bytes - used_memory_bytes >= :assignment.requirements.memory_bytes
        AND disk_bytes - used_disk_bytes >= :assignment.requirements.disk_bytes
        AND EXISTS (SELECT FROM task)
    FOR UPDATE
), device AS (
    -- The price must be the planned one, and the owner must still offer it.
    SELECT devices.id, wanted.milli, wanted.memory_bytes, devices.price_micro_per_hour,
        coalesce((description -> 'terms' ->> 'is_reclaimable')::boolean, false) AS is_reclaimable,
        may_serve_several(kind, description, true) AS may_stand_beside
    FROM devices
    JOIN unnest(
            :shares[].device_id::text[], :shares[].milli::integer[], :shares[].memory_bytes::bigint[])
        AS wanted (id, milli, memory_bytes) USING (id)
    WHERE devices.node_id = :assignment.node_id AND is_present AND standing || '' = 'bound'
        AND availability = 'available'
        AND takes_kind(description -> 'terms', (SELECT kind FROM task))
        -- Lists are about others: owners' own tasks are always accepted.
        AND ((SELECT account_id FROM node) = (SELECT account_id FROM task)
            OR takes_wallet(description -> 'terms', (
                SELECT address FROM accounts WHERE accounts.id = (SELECT account_id FROM task))))
        AND gives_part(kind, description -> 'terms', wanted.milli)
        AND free_milli >= wanted.milli
        AND devices.memory_bytes - used_memory_bytes >= wanted.memory_bytes
        AND EXISTS (SELECT FROM node)
        AND (may_serve_several(kind, description, false) OR NOT EXISTS (
            SELECT FROM attempts AS other
            JOIN attempt_devices ON attempt_id = other.id
            JOIN tasks AS others ON others.id = other.task_id
            WHERE other.node_id = :assignment.node_id AND other.finished_at IS NULL
                AND attempt_devices.device_id = devices.id
                AND other.consumer_id <> (SELECT account_id FROM task)
                AND NOT may_serve_several(
                    kind, description,
                    :assignment.requirements.shares_device AND shares_device(others.requirements))))
    ORDER BY devices.id
    FOR UPDATE OF devices
), guard AS (
    SELECT task.id AS task_id, task.account_id AS consumer_id, node.account_id AS provider_id
    FROM task, node
    WHERE (SELECT count(*) FROM device) = cardinality(:shares[].device_id::text[])
        AND ((SELECT sum(price_micro_per_hour * milli) FROM device)::bigint / 1000
                = :assignment.price_micro_per_hour
            -- A task for its own account's devices only costs nothing there.
            OR :assignment.price_micro_per_hour::bigint = 0
                AND node.account_id = task.account_id AND jsonb_array_length(owners) = 1)
        -- Backed by the ledger entry that follows in this transaction.
        AND (:assignment.hold_micro::bigint = 0 OR EXISTS (SELECT FROM balances
            WHERE account_id = task.account_id AND available_micro >= :assignment.hold_micro))
), taken_devices AS (
    UPDATE devices SET
        free_milli = free_milli - device.milli,
        used_memory_bytes = used_memory_bytes + device.memory_bytes
    FROM device WHERE devices.id = device.id AND EXISTS (SELECT FROM guard)
), taken_node AS (
    UPDATE nodes SET
        used_cores = used_cores + :assignment.requirements.cores,
        used_memory_bytes = used_memory_bytes + :assignment.requirements.memory_bytes,
        used_disk_bytes = used_disk_bytes + :assignment.requirements.disk_bytes
    WHERE id = :assignment.node_id AND EXISTS (SELECT FROM guard)
), taken_task AS (
    UPDATE tasks SET
        -- A running array stays running.
        state = CASE WHEN state = 'queued' THEN 'assigned' ELSE state END,
        pending = CASE WHEN :items IS NULL THEN pending ELSE pending - int4multirange(:items) END,
        not_before = NULL, reason = NULL, detail = '', updated_at = now(), version = version + 1
    WHERE id = :assignment.task_id AND EXISTS (SELECT FROM guard)
), attempt AS (
    INSERT INTO attempts (
        id, task_id, node_id, consumer_id, provider_id, number, cores, memory_bytes, disk_bytes,
        price_micro_per_hour, hold_micro, run_seconds_limit, prepare_seconds_limit,
        log_bytes_limit, lease_expires_at, items, remaining, is_whole, fee_basis_points,
        is_reclaimable, may_stand_beside)
    SELECT :attempt_id, task_id, :assignment.node_id, consumer_id, provider_id,
        (SELECT coalesce(max(number), 0) + 1 FROM attempts WHERE task_id = :assignment.task_id),
        :assignment.requirements.cores, :assignment.requirements.memory_bytes,
        :assignment.requirements.disk_bytes, :assignment.price_micro_per_hour,
        :assignment.hold_micro, :run_seconds_limit, :assignment.limits.prepare_seconds,
        :assignment.limits.log_bytes, now() + :fetch_timeout::interval,
        :items, CASE WHEN :items IS NULL THEN '{}' ELSE int4multirange(:items) END,
        :items IS NULL, :fee_basis_points,
        (SELECT bool_and(is_reclaimable) FROM device), (SELECT bool_and(may_stand_beside) FROM device)
    FROM guard
    RETURNING id, consumer_id, provider_id
), shares AS (
    INSERT INTO attempt_devices (attempt_id, device_id, milli, memory_bytes)
    SELECT attempt.id, device.id, device.milli, device.memory_bytes FROM attempt, device
), told AS (
    -- For the attempt, and then for the task, unless it is an array in progress.
    INSERT INTO events (account_id, task_id, node_id, kind, data)
    SELECT consumer_id, task.id, event.node_id, event.kind,
        jsonb_build_object('state', event.state, 'attempt_id', attempt.id,
            'node_id', :assignment.node_id::text)
    FROM attempt, task, (VALUES
        (1, 'attempt.granted', 'granted', :assignment.node_id::text),
        (2, 'task.assigned', 'assigned', NULL)
    ) AS event (place, kind, state, node_id)
    WHERE place = 1 OR task.state = 'queued'
    ORDER BY place
)
SELECT id, consumer_id, provider_id FROM attempt

-- name: assign_ahead
-- Grants further tasks of the account behind the attempt that holds the share of a line: with the same
-- requirements and kind, so that whatever is true of the holder is true of them, except for what
-- their owner or an admin may have changed since. They reserve nothing. One of them that was sent
-- back is not granted ahead again.
WITH term AS (
    SELECT FROM leader
    WHERE leader.term = :leadership.term AND holder = :leadership.holder AND expires_at > now()
        -- Earlier versions would free what these never took.
        AND NOT EXISTS (SELECT FROM instances
            WHERE version <> :version AND seen_at > now() - interval '2 minutes')
    FOR SHARE
), task AS (
    SELECT id, account_id, kind, requirements FROM tasks
    WHERE id = ANY(:grants[].task_id::text[]) AND (SELECT count(*) FROM term) = 1
        AND items IS NULL AND state = 'queued' AND waits_for = 0
        AND coalesce(not_before <= now(), true) AND coalesce(start_before > now(), true)
        -- Counted, so that it is looked up for each task whatever the planner believes.
        AND (SELECT count(*) FROM attempts WHERE task_id = tasks.id) = 0
    ORDER BY id FOR UPDATE
), holder AS (
    SELECT * FROM attempts
    -- Whichever attempt of the line that is by now.
    WHERE node_id = :node_id AND finished_at IS NULL AND has_share AND :line IN (id, line)
        AND price_micro_per_hour = :price_micro_per_hour
        AND (SELECT count(*) FROM task) > 0
    FOR UPDATE
), held AS MATERIALIZED (
    SELECT device_id, milli, attempt_devices.memory_bytes FROM holder CROSS JOIN LATERAL (
        SELECT * FROM attempt_devices WHERE attempt_id = holder.id OFFSET 0) AS attempt_devices
), running AS (
    SELECT kind, requirements FROM tasks WHERE id = (SELECT task_id FROM holder)
), fit AS (
    SELECT holder.* FROM holder JOIN nodes ON nodes.id = holder.node_id, running
    WHERE nodes.state = 'online' AND is_polling AND cordoned_at IS NULL
        AND (nodes.account_id = consumer_id OR NOT (own_tasks_only OR (
            running.kind = 'container'
            AND coalesce('none' IN (description #>> '{containers,memory}',
                description #>> '{containers,processes}'), false))))
        AND NOT EXISTS (
            SELECT FROM held JOIN devices ON devices.id = device_id
            WHERE NOT (
                is_present AND standing = 'bound' AND availability = 'available'
                AND takes_kind(devices.description -> 'terms', running.kind)
                AND gives_part(devices.kind, devices.description -> 'terms', milli)
                AND (nodes.account_id = consumer_id OR takes_wallet(devices.description -> 'terms',
                    (SELECT address FROM accounts WHERE accounts.id = consumer_id)))))
        AND (holder.price_micro_per_hour = 0 OR holder.price_micro_per_hour = (
            SELECT sum(devices.price_micro_per_hour * milli)::bigint / 1000
            FROM held JOIN devices ON devices.id = device_id))
        AND (:hold_micro::bigint = 0 OR EXISTS (SELECT FROM balances
            WHERE account_id = consumer_id AND available_micro >= :hold_micro))
), chosen AS (
    SELECT task.id AS task_id, how.attempt_id, how.run_seconds, how.prepare_seconds,
        how.log_limit, place
    FROM unnest(:grants[].task_id::text[], :grants[].attempt_id::text[],
            :grants[].limits.run_seconds::double precision[],
            :grants[].limits.prepare_seconds::double precision[],
            :grants[].limits.log_bytes::bigint[])
        WITH ORDINALITY
        AS how (task_id, attempt_id, run_seconds, prepare_seconds, log_limit, place)
    JOIN task ON task.id = how.task_id, fit, running
    WHERE task.account_id = fit.consumer_id AND task.kind = running.kind
        AND task.requirements = running.requirements
), taken_task AS (
    UPDATE tasks SET state = 'assigned', not_before = NULL, reason = NULL, detail = '',
        updated_at = now(), version = version + 1
    FROM chosen WHERE tasks.id = chosen.task_id
), attempt AS (
    INSERT INTO attempts (
        id, task_id, node_id, consumer_id, provider_id, number, cores, memory_bytes, disk_bytes,
        price_micro_per_hour, hold_micro, run_seconds_limit, prepare_seconds_limit,
        log_bytes_limit, lease_expires_at, fee_basis_points, is_reclaimable, may_stand_beside,
        line, has_share, is_whole)
    SELECT chosen.attempt_id, chosen.task_id, fit.node_id, consumer_id, provider_id, 1, cores,
        memory_bytes, disk_bytes, price_micro_per_hour, :hold_micro, run_seconds, prepare_seconds,
        log_limit, now() + :fetch_timeout::interval, :fee_basis_points, is_reclaimable,
        may_stand_beside, coalesce(fit.line, fit.id), false, true
    FROM chosen, fit
    RETURNING id, task_id, node_id, consumer_id, provider_id
), shares AS (
    INSERT INTO attempt_devices (attempt_id, device_id, milli, memory_bytes)
    SELECT attempt.id, device_id, milli, held.memory_bytes FROM attempt, held
), told AS (
    INSERT INTO events (account_id, task_id, node_id, kind, data)
    SELECT consumer_id, attempt.task_id, event.node_id, event.kind,
        jsonb_build_object('state', event.state, 'attempt_id', attempt.id,
            'node_id', attempt.node_id)
    FROM attempt JOIN chosen ON chosen.attempt_id = attempt.id, LATERAL (VALUES
        (1, 'attempt.granted', 'granted', attempt.node_id),
        (2, 'task.assigned', 'assigned', NULL)
    ) AS event (step, kind, state, node_id)
    ORDER BY place, step
)
SELECT id, task_id, consumer_id, provider_id FROM attempt
