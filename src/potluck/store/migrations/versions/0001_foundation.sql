-- Ids are ULIDs with a word in front; "C" makes them sort by time, byte by byte.

CREATE TABLE accounts (
    id          text COLLATE "C" PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    is_operator boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT now()
);
-- There is one operator, made at the first start, however many instances start at once.
CREATE UNIQUE INDEX accounts_one_operator ON accounts (is_operator) WHERE is_operator;

-- Bearer tokens, as hashes only.
CREATE TABLE tokens (
    hash       bytea PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL REFERENCES accounts,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- What all instances of one server share.
CREATE TABLE installation (
    is_only      boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    lease_secret bytea NOT NULL CHECK (length(lease_secret) >= 32)
);

CREATE TABLE nodes (
    id                text COLLATE "C" PRIMARY KEY,
    account_id        text COLLATE "C" NOT NULL REFERENCES accounts,
    name              text NOT NULL,
    state             text NOT NULL CHECK (state IN ('online', 'silent', 'left')),
    own_tasks_only    boolean NOT NULL,
    description       jsonb NOT NULL,
    cores             integer NOT NULL,
    memory_bytes      bigint NOT NULL,
    disk_bytes        bigint NOT NULL,
    -- Reserved by live attempts. More than there is only when the machine came back smaller.
    used_cores        integer NOT NULL DEFAULT 0 CHECK (used_cores >= 0),
    used_memory_bytes bigint NOT NULL DEFAULT 0 CHECK (used_memory_bytes >= 0),
    used_disk_bytes   bigint NOT NULL DEFAULT 0 CHECK (used_disk_bytes >= 0),
    registered_at     timestamptz NOT NULL DEFAULT now(),
    heartbeat_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX nodes_by_account ON nodes (account_id);

CREATE TABLE devices (
    id                   text COLLATE "C" PRIMARY KEY,
    node_id              text COLLATE "C" NOT NULL REFERENCES nodes,
    uuid                 text NOT NULL,
    position             integer NOT NULL,
    is_present           boolean NOT NULL DEFAULT true,
    kind                 text NOT NULL CHECK (kind IN ('gpu', 'cpu')),
    description          jsonb NOT NULL,
    model                text NOT NULL,
    memory_bytes         bigint NOT NULL,
    price_micro_per_hour bigint NOT NULL CHECK (price_micro_per_hour >= 0),
    free_milli           integer NOT NULL DEFAULT 1000 CHECK (free_milli BETWEEN 0 AND 1000),
    UNIQUE (node_id, uuid)
);

CREATE TABLE tasks (
    id              text COLLATE "C" PRIMARY KEY,
    account_id      text COLLATE "C" NOT NULL REFERENCES accounts,
    name            text NOT NULL,
    -- What the consumer said, as it came; the columns beside it are what queries need.
    request         jsonb NOT NULL,
    idempotency_key text,
    request_hash    bytea NOT NULL,
    priority        integer NOT NULL,
    state           text NOT NULL DEFAULT 'queued' CHECK (state IN
                    ('queued', 'assigned', 'running', 'succeeded', 'failed', 'cancelled', 'expired')),
    reason          text,
    detail          text NOT NULL DEFAULT '',
    exit_code       integer,
    failures        integer NOT NULL DEFAULT 0,
    losses          integer NOT NULL DEFAULT 0,
    charge_micro    bigint NOT NULL DEFAULT 0,
    version         bigint NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    not_before      timestamptz,
    start_before    timestamptz,
    started_at      timestamptz,
    finished_at     timestamptz,
    UNIQUE (account_id, idempotency_key),
    CHECK ((finished_at IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled', 'expired')))
);
CREATE INDEX tasks_of_account ON tasks (account_id, id DESC);
CREATE INDEX tasks_waiting ON tasks (priority DESC, id) WHERE state = 'queued';
CREATE INDEX tasks_with_deadline ON tasks (start_before)
    WHERE state = 'queued' AND started_at IS NULL;
CREATE INDEX tasks_in_back_off ON tasks (not_before)
    WHERE state = 'queued' AND not_before IS NOT NULL;

CREATE TABLE attempts (
    id                   text COLLATE "C" PRIMARY KEY,
    task_id              text COLLATE "C" NOT NULL REFERENCES tasks,
    node_id              text COLLATE "C" NOT NULL REFERENCES nodes,
    consumer_id          text COLLATE "C" NOT NULL REFERENCES accounts,
    provider_id          text COLLATE "C" NOT NULL REFERENCES accounts,
    number               integer NOT NULL,
    state                text NOT NULL DEFAULT 'granted' CHECK (state IN
                         ('granted', 'preparing', 'running', 'succeeded', 'failed', 'cancelled', 'lost')),
    reason               text,
    detail               text NOT NULL DEFAULT '',
    exit_code            integer,
    usage                jsonb,
    -- Reserved on the node for as long as the attempt is live.
    cores                integer NOT NULL,
    memory_bytes         bigint NOT NULL,
    disk_bytes           bigint NOT NULL,
    price_micro_per_hour bigint NOT NULL,
    hold_micro           bigint NOT NULL,
    charge_micro         bigint NOT NULL DEFAULT 0,
    run_seconds_limit    double precision NOT NULL,
    prepare_seconds_limit double precision NOT NULL,
    log_bytes_limit      bigint NOT NULL,
    log_pieces           integer NOT NULL DEFAULT 0,
    log_bytes            bigint NOT NULL DEFAULT 0,
    assigned_at          timestamptz NOT NULL DEFAULT now(),
    fetched_at           timestamptz,
    lease_expires_at     timestamptz NOT NULL,
    started_at           timestamptz,
    finished_at          timestamptz,
    -- The hash of the accepted final report: the same one again gets the same answer.
    report_hash          bytea,
    UNIQUE (task_id, number),
    -- So `finished_at IS NULL` says that an attempt is live.
    CHECK ((finished_at IS NULL) = (state IN ('granted', 'preparing', 'running')))
);
-- A task has at most one live attempt, whatever the code does.
CREATE UNIQUE INDEX attempts_one_live ON attempts (task_id) WHERE finished_at IS NULL;
CREATE INDEX attempts_live_of_node ON attempts (node_id) WHERE finished_at IS NULL;
CREATE INDEX attempts_by_expiry ON attempts (lease_expires_at) WHERE finished_at IS NULL;

CREATE TABLE attempt_devices (
    attempt_id text COLLATE "C" NOT NULL REFERENCES attempts,
    device_id  text COLLATE "C" NOT NULL REFERENCES devices,
    milli      integer NOT NULL CHECK (milli BETWEEN 1 AND 1000),
    PRIMARY KEY (attempt_id, device_id)
);
CREATE INDEX attempt_devices_by_device ON attempt_devices (device_id);

-- The ledger: double entry, append-only. A null account is the platform, which has no balance row
-- to queue on. Each INSERT must balance in itself, and moves the balances it names.

CREATE TABLE balances (
    account_id      text COLLATE "C" PRIMARY KEY REFERENCES accounts,
    available_micro bigint NOT NULL DEFAULT 0 CHECK (available_micro >= 0),
    held_micro      bigint NOT NULL DEFAULT 0 CHECK (held_micro >= 0)
);

CREATE TABLE ledger_entries (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    attempt_id   text COLLATE "C" REFERENCES attempts,
    account_id   text COLLATE "C" REFERENCES accounts,
    kind         text NOT NULL CHECK (kind IN ('grant', 'hold', 'charge', 'reward', 'refund')),
    purse        text NOT NULL CHECK (purse IN ('available', 'held', 'issued')),
    amount_micro bigint NOT NULL CHECK (amount_micro <> 0),
    created_at   timestamptz NOT NULL DEFAULT now(),
    CHECK ((account_id IS NULL) = (purse = 'issued')),
    CHECK ((attempt_id IS NULL) = (kind = 'grant'))
);
CREATE INDEX ledger_entries_of_account ON ledger_entries (account_id, id);
-- Nothing is held, charged, paid or refunded twice for one attempt.
CREATE UNIQUE INDEX ledger_entries_once ON ledger_entries (attempt_id, kind, purse)
    WHERE attempt_id IS NOT NULL;

CREATE FUNCTION ledger_apply() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM added GROUP BY attempt_id HAVING sum(amount_micro) <> 0) THEN
        RAISE EXCEPTION 'ledger entries do not balance' USING ERRCODE = 'check_violation';
    END IF;
    -- In id order, so that two transfers between the same accounts can not deadlock.
    PERFORM FROM balances WHERE account_id IN (SELECT account_id FROM added)
        ORDER BY account_id FOR UPDATE;
    UPDATE balances SET
        available_micro = balances.available_micro + moved.available,
        held_micro = balances.held_micro + moved.held
    FROM (
        SELECT account_id,
            coalesce(sum(amount_micro) FILTER (WHERE purse = 'available'), 0) AS available,
            coalesce(sum(amount_micro) FILTER (WHERE purse = 'held'), 0) AS held
        FROM added WHERE account_id IS NOT NULL GROUP BY account_id
    ) AS moved
    WHERE balances.account_id = moved.account_id;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_apply AFTER INSERT ON ledger_entries
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_apply();

CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER ledger_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();

-- Facts that somebody may be told, written in the transaction that made them true.
CREATE TABLE events (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id   text COLLATE "C" NOT NULL REFERENCES accounts,
    task_id      text COLLATE "C" REFERENCES tasks,
    node_id      text COLLATE "C" REFERENCES nodes,
    kind         text NOT NULL,
    data         jsonb NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz
);
CREATE INDEX events_undelivered ON events (id) WHERE delivered_at IS NULL;
CREATE INDEX events_of_account ON events (account_id, id);

-- One instance leads. A row and a term, not an advisory lock: a stopped process would keep that.
CREATE TABLE leader (
    is_only    boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    holder     text NOT NULL DEFAULT '',
    term       bigint NOT NULL DEFAULT 0,
    renewed_at timestamptz NOT NULL DEFAULT '-infinity',
    expires_at timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO leader DEFAULT VALUES;
