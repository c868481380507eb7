-- name: write
-- All effects of reports and ends in one statement: attempts, tasks, function results and events.
-- An earlier statement has locked both kinds of rows, so this one sees all dependents submitted
-- before. Only a live attempt changes: its reservations are returned once. Nodes before devices,
-- and nodes in id order.
WITH changed AS (
    UPDATE attempts SET
        state = how.state, reason = how.reason, detail = how.detail, exit_code = how.exit_code,
        usage = how.usage, charge_micro = attempts.charge_micro + how.charge_micro,
        report_hash = how.report_hash, held_back_micro = how.held_back_micro,
        -- Of one that has a price and may run for longer than a slice.
        next_slice_at = CASE WHEN how.is_over THEN NULL
            WHEN how.has_begun AND has_share AND price_micro_per_hour > 0
                AND run_seconds_limit > :slice_seconds::double precision
            THEN coalesce(started_at, now()) + make_interval(secs => :slice_seconds)
            ELSE next_slice_at END,
        started_at = CASE WHEN how.has_begun THEN coalesce(started_at, now()) ELSE started_at END,
        finished_at = CASE WHEN how.is_over THEN now() END,
        -- One that ends without having held the share used nothing.
        assigned_at = CASE WHEN how.is_over AND NOT has_share THEN now() ELSE assigned_at END,
        remaining = remaining - how.done::int4multirange,
        items_done = attempts.items_done + how.items_done,
        items_failed = attempts.items_failed + how.items_failed,
        items_seconds = attempts.items_seconds + how.items_seconds,
        progressed_at = CASE WHEN how.items_done > 0 THEN now() ELSE progressed_at END,
        -- Of a call stream: what it waits for the next items is not paid for.
        idle_since = CASE WHEN how.items_done > 0 AND isempty(remaining - how.done::int4multirange)
            THEN now() ELSE idle_since END,
        is_outlier = how.is_outlier, is_spared = how.is_spared,
        sealed_last_lines = how.sealed_last_lines
    FROM unnest(
            :attempts[].attempt.id::text[], :attempts[].state::text[], :attempts[].reason::text[],
            :attempts[].detail::text[], :attempts[].exit_code::integer[],
            :attempts[].usage::jsonb[], :attempts[].charge_micro::bigint[],
            :attempts[].held_back_micro::bigint[],
            :attempts[].report_hash::bytea[], :attempts[].has_begun::boolean[],
            :attempts[].is_over::boolean[], :attempts[].is_finished::integer[],
            :attempts[].is_nodes_loss::integer[], :done::text[],
            :attempts[].items_done::integer[], :attempts[].items_failed::integer[],
            :attempts[].accepted.run_seconds::double precision[],
            :attempts[].is_outlier::boolean[], :attempts[].is_spared::boolean[],
            :sealed_last_lines::bytea[])
        AS how (id, state, reason, detail, exit_code, usage, charge_micro, held_back_micro,
            report_hash, has_begun, is_over, finished, lost, done, items_done, items_failed,
            items_seconds, is_outlier, is_spared, sealed_last_lines)
    WHERE attempts.id = how.id AND finished_at IS NULL
    -- What an account runs on its own node says nothing to others about its reliability.
    RETURNING attempts.id, node_id, how.is_over, has_share,
        CASE WHEN has_share THEN cores ELSE 0 END AS cores,
        CASE WHEN has_share THEN memory_bytes ELSE 0 END AS memory_bytes,
        CASE WHEN has_share THEN disk_bytes ELSE 0 END AS disk_bytes,
        CASE WHEN consumer_id = provider_id THEN 0 ELSE how.finished END AS finished,
        CASE WHEN consumer_id = provider_id THEN 0 ELSE how.lost END AS lost, how.is_outlier::integer AS outliers,
        how.reason = 'withdrawn' AND how.lost > 0 AS was_ignored
), refuted AS (
    -- Failures of a task, or of the one that it repeats, on nodes of other owners than now.
    UPDATE attempts SET is_outlier = true
    FROM unnest(:refuting[].attempt.task_id::text[],
            :refuting[].attempt.billable.provider_id::text[])
        AS success (task_id, provider_id)
    JOIN tasks ON tasks.id = success.task_id
    WHERE attempts.task_id IN (tasks.id, tasks.retry_of)
        AND attempts.state = 'failed' AND NOT is_outlier AND attempts.provider_id <> success.provider_id
    RETURNING node_id
), given_back AS (
    SELECT node_id, sum(cores) AS cores, sum(memory_bytes) AS memory_bytes,
        sum(disk_bytes) AS disk_bytes, sum(finished) AS finished, sum(lost) AS lost,
        sum(outliers) AS outliers, bool_or(was_ignored) AS was_ignored
    FROM (
        SELECT node_id, cores, memory_bytes, disk_bytes, finished, lost, outliers, was_ignored
        FROM changed WHERE is_over
        UNION ALL SELECT node_id, 0, 0, 0, 0, 0, 1, false FROM refuted
    ) AS part GROUP BY node_id
), node AS (
    -- Several are locked in order. A single one is locked by its update: locking a row that changed
    -- since the snapshot, and then updating it, queues behind those that wait for this transaction.
    SELECT nodes.id FROM nodes
    WHERE id IN (SELECT node_id FROM given_back) AND (SELECT count(*) FROM given_back) > 1
    ORDER BY id FOR NO KEY UPDATE  -- inserting an event shares the node's key
), freed_node AS (
    UPDATE nodes SET
        used_cores = used_cores - given_back.cores,
        used_memory_bytes = used_memory_bytes - given_back.memory_bytes,
        used_disk_bytes = used_disk_bytes - given_back.disk_bytes,
        finished_attempts = finished_attempts + given_back.finished,
        lost_attempts = lost_attempts + given_back.lost,
        outlier_attempts = outlier_attempts + given_back.outliers,
        -- Gets no more work until it polls, even if it is alive.
        is_polling = is_polling AND NOT given_back.was_ignored
    FROM given_back
    WHERE nodes.id = given_back.node_id AND (SELECT count(*) FROM node) >= 0
    RETURNING nodes.id
), share AS (
    SELECT device_id, sum(milli) AS milli, sum(part.memory_bytes) AS memory_bytes
    FROM changed CROSS JOIN LATERAL shares_of(changed.id) AS part
    WHERE is_over AND has_share GROUP BY device_id
), freed_device AS (
    -- The nodes' row locks cover their devices.
    UPDATE devices SET
        free_milli = free_milli + share.milli,
        used_memory_bytes = used_memory_bytes - share.memory_bytes
    FROM share WHERE devices.id = share.device_id AND (SELECT count(*) FROM freed_node) > 0
), moved AS (
    UPDATE tasks SET
        state = how.state,
        reason = CASE WHEN how.is_decided THEN how.reason ELSE tasks.reason END,
        detail = CASE WHEN how.is_decided THEN how.detail ELSE tasks.detail END,
        exit_code = CASE WHEN how.is_decided THEN how.exit_code ELSE tasks.exit_code END,
        started_at = CASE WHEN how.has_begun THEN coalesce(started_at, now()) ELSE started_at END,
        -- Counts consecutive failures of whole ranges.
        failures = CASE WHEN how.has_outcomes THEN 0 ELSE tasks.failures END + how.failures,
        losses = tasks.losses + how.losses, charge_micro = tasks.charge_micro + how.charge_micro,
        not_before = greatest(tasks.not_before, how.not_before),
        -- Of an array: the rest of the range goes back, except for an item that is given up.
        pending = pending + how.back::int4multirange,
        items_succeeded = tasks.items_succeeded + how.items_succeeded,
        items_failed = tasks.items_failed + how.items_failed,
        items_seconds = tasks.items_seconds + how.items_seconds,
        result_count = result_count + how.pieces,
        finished_at = CASE WHEN how.is_final THEN now() END,
        -- They are not granted any more.
        sealed_secrets = CASE WHEN NOT how.is_final THEN sealed_secrets END,
        updated_at = now(), version = version + 1
    FROM unnest(
            :decisive[].attempt.task_id::text[], :tasks[].state::text[],
            :decisive[].is_decided::boolean[],
            :tasks[].reason::text[], :tasks[].detail::text[], :tasks[].exit_code::integer[],
            :decisive[].has_task_begun::boolean[], :decisive[].has_outcomes::boolean[],
            :tasks[].failures::integer[], :tasks[].losses::integer[],
            :tasks[].charge_micro::bigint[], :tasks[].not_before::timestamptz[],
            :pending::text[], :decisive[].accepted.succeeded::integer[],
            :failed::integer[], :decisive[].accepted.run_seconds::double precision[],
            :result_counts::integer[], :tasks[].state.is_final::boolean[])
        AS how (id, state, is_decided, reason, detail, exit_code, has_begun, has_outcomes, failures,
            losses, charge_micro, not_before, back, items_succeeded, items_failed, items_seconds,
            pieces, is_final)
    WHERE tasks.id = how.id
    RETURNING tasks.id, tasks.state, how.is_final, result_count - how.pieces AS results_before
), ended_task AS (
    -- The leader releases or cancels dependents: there may be a million.
    INSERT INTO ended_tasks (after_id, outcome)
    SELECT id, state FROM moved
    WHERE is_final AND EXISTS (SELECT FROM dependencies WHERE after_id = moved.id)
), kept AS (
    -- After the existing results of each task, in this order.
    INSERT INTO results
        (task_id, number, attempt_id, start, "end", is_error, sealed_value, sha256, size_bytes)
    SELECT task_id, results_before + row_number() OVER (PARTITION BY task_id ORDER BY place),
        attempt_id, start, "end", is_error, sealed_value, sha256, size_bytes
    FROM unnest(
            :results[].task_id::text[], :results[].attempt_id::text[], :results[].start::integer[],
            :results[].end::integer[], :results[].is_error::boolean[], :sealed_values::bytea[],
            :results[].sha256::bytea[], :results[].size_bytes::bigint[])
        WITH ORDINALITY
        AS piece (task_id, attempt_id, start, "end", is_error, sealed_value, sha256, size_bytes,
            place)
    JOIN moved ON moved.id = task_id
)
INSERT INTO events (account_id, task_id, node_id, kind, data)
SELECT account_id, task_id, node_id, kind, data
FROM unnest(:events[].account_id::text[], :events[].task_id::text[], :events[].node_id::text[],
    :events[].kind::text[], :events[].data::jsonb[])
    WITH ORDINALITY AS event (account_id, task_id, node_id, kind, data, place)
ORDER BY place

-- name: pass_on
-- After `write`: the next attempt of each line takes the share over that an ended one held. Its time
-- begins now: no account is charged, or its use counted, for two attempts on one share.
WITH heir AS (
    SELECT next.id FROM attempts AS ended, LATERAL (
        SELECT id FROM attempts
        WHERE line = coalesce(ended.line, ended.id) AND finished_at IS NULL AND NOT has_share
        ORDER BY line, id LIMIT 1
    ) AS next
    WHERE ended.id = ANY(:attempt_ids::text[]) AND ended.has_share
        AND ended.finished_at IS NOT NULL
), taken AS (
    UPDATE attempts SET has_share = true, assigned_at = now(),
        started_at = CASE WHEN started_at IS NOT NULL THEN now() END,
        next_slice_at = CASE WHEN started_at IS NOT NULL AND price_micro_per_hour > 0
                AND run_seconds_limit > :slice_seconds::double precision
            THEN now() + make_interval(secs => :slice_seconds) END
    FROM heir WHERE attempts.id = heir.id
    RETURNING attempts.id, node_id, cores, memory_bytes, disk_bytes
), node AS (
    UPDATE nodes SET
        used_cores = used_cores + part.cores,
        used_memory_bytes = used_memory_bytes + part.memory_bytes,
        used_disk_bytes = used_disk_bytes + part.disk_bytes
    FROM (SELECT node_id, sum(cores) AS cores, sum(memory_bytes) AS memory_bytes,
        sum(disk_bytes) AS disk_bytes FROM taken GROUP BY node_id) AS part
    WHERE nodes.id = part.node_id
)
UPDATE devices SET free_milli = free_milli - part.milli,
    used_memory_bytes = used_memory_bytes + part.memory_bytes
FROM (SELECT device_id, sum(milli) AS milli, sum(attempt_devices.memory_bytes) AS memory_bytes
    FROM attempt_devices JOIN taken ON taken.id = attempt_id GROUP BY device_id) AS part
WHERE devices.id = part.device_id
