-- Arrays, dependencies, delays, quotas, fractions with memory, re-adoption, and a mark on every row
-- that the scheduler keeps in memory, by which it reads what has changed.

-- The transaction that last changed what the scheduler looks at. Read together with a snapshot: rows
-- become visible out of order, and whatever an earlier snapshot did not see is new.
CREATE FUNCTION stamp_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed := pg_current_xact_id();
    RETURN NEW;
END $$;

ALTER TABLE accounts
    ADD COLUMN weight              double precision NOT NULL DEFAULT 1 CHECK (weight > 0),
    ADD COLUMN max_running_devices integer CHECK (max_running_devices >= 0),
    ADD COLUMN max_queued_tasks    integer CHECK (max_queued_tasks >= 0),
    ADD COLUMN max_priority        integer,
    ADD COLUMN changed             xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX accounts_changed ON accounts (changed);
CREATE TRIGGER accounts_changed BEFORE UPDATE ON accounts FOR EACH ROW
    WHEN ((OLD.weight, OLD.max_running_devices) IS DISTINCT FROM (NEW.weight, NEW.max_running_devices))
    EXECUTE FUNCTION stamp_change();

ALTER TABLE balances ADD COLUMN changed xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX balances_changed ON balances (changed);
CREATE TRIGGER balances_changed BEFORE UPDATE ON balances FOR EACH ROW
    WHEN (OLD.available_micro IS DISTINCT FROM NEW.available_micro)
    EXECUTE FUNCTION stamp_change();

ALTER TABLE nodes
    -- How attempts ended here; the scheduler trusts a node accordingly.
    ADD COLUMN finished_attempts bigint NOT NULL DEFAULT 0,
    ADD COLUMN lost_attempts     bigint NOT NULL DEFAULT 0,
    -- False from when it let an assignment lie until it asks for work again.
    ADD COLUMN is_polling        boolean NOT NULL DEFAULT true,
    ADD COLUMN changed           xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX nodes_changed ON nodes (changed);
-- Who was heard lately, and who of those online was not, is asked each second among all that ever were.
CREATE INDEX nodes_heard ON nodes (heartbeat_at) WHERE state <> 'left';
CREATE INDEX nodes_online ON nodes (heartbeat_at) WHERE state = 'online';
-- A heartbeat changes nothing that is planned with.
CREATE TRIGGER nodes_changed BEFORE UPDATE ON nodes FOR EACH ROW
    WHEN ((OLD.state, OLD.own_tasks_only, OLD.description, OLD.cores, OLD.memory_bytes, OLD.disk_bytes,
           OLD.used_cores, OLD.used_memory_bytes, OLD.used_disk_bytes, OLD.lost_attempts, OLD.is_polling)
        IS DISTINCT FROM
          (NEW.state, NEW.own_tasks_only, NEW.description, NEW.cores, NEW.memory_bytes, NEW.disk_bytes,
           NEW.used_cores, NEW.used_memory_bytes, NEW.used_disk_bytes, NEW.lost_attempts, NEW.is_polling))
    EXECUTE FUNCTION stamp_change();

ALTER TABLE devices
    ADD COLUMN used_memory_bytes bigint NOT NULL DEFAULT 0 CHECK (used_memory_bytes >= 0),
    ADD COLUMN changed           xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX devices_changed ON devices (changed);
CREATE TRIGGER devices_changed BEFORE UPDATE ON devices FOR EACH ROW
    EXECUTE FUNCTION stamp_change();
-- Who may stand beside whom: a CPU is had in parts, by anybody. A fraction of a card is no wall: it
-- serves one account at a time, unless there is one, or its owner and all who are on it agreed to let
-- others in. Nobody's silence is an agreement. (Plain expressions, so that they cost no call.)
CREATE FUNCTION shares_device(requirements jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN coalesce((requirements ->> 'shares_device')::boolean, false);
CREATE FUNCTION may_serve_several(kind text, description jsonb, all_agree boolean) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN kind = 'cpu' OR coalesce((description ->> 'is_partition')::boolean, false)
        OR coalesce((description ->> 'shares_accounts')::boolean AND all_agree, false);
ALTER TABLE attempt_devices
    ADD COLUMN memory_bytes bigint NOT NULL DEFAULT 0 CHECK (memory_bytes >= 0);

ALTER TABLE tasks
    ADD COLUMN expected_seconds double precision,
    -- Tasks that must have succeeded first, and how many of them have not yet.
    ADD COLUMN after_ids        text[] NOT NULL DEFAULT '{}',
    ADD COLUMN waits_for        integer NOT NULL DEFAULT 0 CHECK (waits_for >= 0),
    -- Of an array: how many items, and which nobody has been granted. What live attempts have left
    -- to do is theirs, what failed for good has a row in failed_items, and all others succeeded.
    ADD COLUMN items            integer CHECK (items >= 1),
    ADD COLUMN allow_failures   integer NOT NULL DEFAULT 0,
    ADD COLUMN pending          int4multirange NOT NULL DEFAULT '{}',
    ADD COLUMN items_succeeded  integer NOT NULL DEFAULT 0,
    ADD COLUMN items_failed     integer NOT NULL DEFAULT 0,
    -- Seconds that all reported items took together, for the size of the next ranges.
    ADD COLUMN items_seconds    double precision NOT NULL DEFAULT 0,
    ADD COLUMN changed          xid8 NOT NULL DEFAULT pg_current_xact_id(),
    -- Whether an attempt could be made of it: an array that runs may have room for one more.
    ADD COLUMN is_waiting       boolean NOT NULL GENERATED ALWAYS AS (
        CASE WHEN items IS NULL THEN state = 'queued'
        ELSE NOT isempty(pending) AND state IN ('queued', 'assigned', 'running') END) STORED;
CREATE INDEX tasks_changed ON tasks (changed, id);
CREATE TRIGGER tasks_changed BEFORE UPDATE ON tasks FOR EACH ROW
    WHEN ((OLD.state, OLD.not_before, OLD.waits_for, OLD.pending, OLD.failures, OLD.losses)
        IS DISTINCT FROM
          (NEW.state, NEW.not_before, NEW.waits_for, NEW.pending, NEW.failures, NEW.losses))
    EXECUTE FUNCTION stamp_change();
DROP INDEX tasks_waiting;
-- The leader knows by itself what it has put off.
DROP INDEX tasks_in_back_off;
-- The head of each account's queue; and all queues in the order in which their rows lie on the disk,
-- for a new leader, which reads a million of them.
CREATE INDEX tasks_waiting ON tasks (account_id, priority DESC, id) WHERE is_waiting;
CREATE INDEX tasks_waiting_by_id ON tasks (id) WHERE is_waiting;
-- A listing looks at the newest few of each state and kind: whatever it is filtered by, it reads no
-- more rows than it shows, times the few states. What it is filtered by is one expression, and the
-- order (that of "C") has another name, so that no other index will do: with poor statistics a plan
-- would as soon walk over all tasks, or over all of the account.
CREATE INDEX tasks_listed_by_state ON tasks
    ((account_id || '/' || state || '/' || kind), id COLLATE "POSIX" DESC);
CREATE INDEX tasks_listed_by_name ON tasks
    ((account_id || '/' || name || '/' || state || '/' || kind), id COLLATE "POSIX" DESC);
DROP INDEX tasks_of_account;
CREATE INDEX tasks_open ON tasks (account_id, state) WHERE finished_at IS NULL;

-- A task waits for others. The transaction that ends one of these writes how it ended, in one row
-- however many wait for it; the leader then lets these go, or cancels them, a batch at a time.
CREATE TABLE dependencies (
    task_id  text COLLATE "C" NOT NULL REFERENCES tasks,
    after_id text COLLATE "C" NOT NULL REFERENCES tasks,
    PRIMARY KEY (task_id, after_id)
);
CREATE INDEX dependencies_after ON dependencies (after_id, task_id);
CREATE TABLE ended_tasks (
    after_id text COLLATE "C" PRIMARY KEY REFERENCES tasks,
    outcome  text NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'expired'))
);

-- Items that have failed, perhaps to be tried again.
CREATE TABLE failed_items (
    task_id    text COLLATE "C" NOT NULL REFERENCES tasks,
    item       integer NOT NULL CHECK (item >= 0),
    failures   integer NOT NULL CHECK (failures >= 1),
    is_final   boolean NOT NULL,
    attempt_id text COLLATE "C" NOT NULL REFERENCES attempts,
    reason     text NOT NULL,
    exit_code  integer,
    detail     text NOT NULL DEFAULT '',
    PRIMARY KEY (task_id, item)
);

ALTER TABLE attempts
    -- Of an array: the range that was granted, and what of it has no outcome yet.
    ADD COLUMN items        int4range,
    ADD COLUMN remaining    int4multirange NOT NULL DEFAULT '{}',
    ADD COLUMN items_done   integer NOT NULL DEFAULT 0,
    ADD COLUMN items_failed integer NOT NULL DEFAULT 0,  -- of those that are done
    ADD COLUMN items_seconds double precision NOT NULL DEFAULT 0,
    ADD COLUMN progressed_at timestamptz,  -- when an item last had an outcome
    -- How often it was lost and taken back.
    ADD COLUMN adoptions    integer NOT NULL DEFAULT 0;
-- A single task has at most one live attempt, whatever the code does. An array has many, over ranges
-- that the guarded assign takes out of what is pending.
DROP INDEX attempts_one_live;
CREATE UNIQUE INDEX attempts_one_live ON attempts (task_id)
    WHERE finished_at IS NULL AND items IS NULL;
CREATE INDEX attempts_live_of_task ON attempts (task_id) WHERE finished_at IS NULL;
-- Where a task should not go again; few, also of an array with ten thousand attempts.
CREATE INDEX attempts_failed ON attempts (task_id, node_id) WHERE state IN ('failed', 'lost');
-- Few, and they count for much in what an account has had of the pool.
CREATE INDEX attempts_long ON attempts (finished_at)
    WHERE finished_at - assigned_at > interval '1 h';

-- An attempt that was lost and taken back is held for, and settled, once more: once in each life.
ALTER TABLE ledger_entries ADD COLUMN adoption integer NOT NULL DEFAULT 0;
DROP INDEX ledger_entries_once;
CREATE UNIQUE INDEX ledger_entries_once ON ledger_entries (attempt_id, adoption, kind, purse)
    WHERE attempt_id IS NOT NULL;

ALTER TABLE leader
    -- When the term before this one ended.
    ADD COLUMN led_until        timestamptz NOT NULL DEFAULT '-infinity',
    -- Silence that began by then has been forgiven, until then: each silence is forgiven once.
    ADD COLUMN forgiven_beat_at timestamptz,
    ADD COLUMN forgiven_until   timestamptz;

-- A task as the leader keeps it in memory; seconds since 1970.
CREATE VIEW scheduled_tasks AS
SELECT id, account_id, priority, name, requirements, limits, is_waiting, changed,
    expected_seconds,
    -- The first pieces: what a script leaves that fails now and then is scattered.
    CASE WHEN items IS NULL THEN pending ELSE coalesce((
        SELECT range_agg(part) FROM (SELECT part FROM unnest(pending) AS part LIMIT 1000) AS first
    ), '{}') END AS pending,
    items_succeeded + items_failed AS items_done, items_seconds,
    extract(epoch FROM created_at)::double precision AS submitted_at,
    extract(epoch FROM not_before)::double precision AS ready_at,
    -- Ranges that fail as a whole too often fail the array, once nobody is at work on it.
    waits_for > 0 OR (items IS NOT NULL AND state <> 'queued' AND failures >= greatest(
        max_attempts, CASE WHEN items_succeeded + items_failed > 0 THEN 3 END)) AS has_to_wait,
    -- About to end: it was not started in time.
    started_at IS NULL AND coalesce(start_before <= now(), false) AS is_overdue,
    -- To the first version nothing has happened yet; of an array each item is looked after by itself.
    CASE WHEN version > 1 AND items IS NULL THEN ARRAY(
        SELECT DISTINCT node_id FROM attempts
        WHERE task_id = tasks.id AND attempts.state IN ('failed', 'lost'))
    END AS failed_on,
    -- What a task of this name can be expected to take.
    CASE WHEN state = 'succeeded' AND items IS NULL AND failures + losses = 0
        THEN extract(epoch FROM finished_at - started_at)::double precision
    END AS took_seconds
FROM tasks;
