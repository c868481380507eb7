-- Conditions of the pool that somebody should know of. An alert is pending, then firing, then
-- resolved; the next time it is a new row.
CREATE TABLE alerts (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name            text NOT NULL,
    subject         text NOT NULL,
    state           text NOT NULL CHECK (state IN ('pending', 'firing', 'resolved')),
    detail          text NOT NULL,
    account_id      text COLLATE "C" REFERENCES accounts,
    node_id         text COLLATE "C" REFERENCES nodes,
    began_at        timestamptz NOT NULL,
    fired_at        timestamptz,
    resolved_at     timestamptz,
    told_at         timestamptz,
    resolve_told_at timestamptz
);
CREATE UNIQUE INDEX alerts_active ON alerts (name, subject) WHERE state <> 'resolved';
CREATE INDEX alerts_resolved ON alerts (resolved_at) WHERE state = 'resolved';

CREATE TABLE alert_silences (
    id         text COLLATE "C" PRIMARY KEY,
    name       text,  -- NULL: every alert
    subject    text,  -- NULL: every subject
    until      timestamptz NOT NULL,
    author_id  text COLLATE "C" NOT NULL REFERENCES accounts,
    comment    text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A row for each message and destination, in their order. The destination is a hash of its address,
-- which is a secret.
CREATE TABLE alert_messages (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    destination   text NOT NULL,
    title         text NOT NULL,
    body          text NOT NULL,
    is_resolved   boolean NOT NULL,
    attempts      integer NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL DEFAULT now(),
    due_at        timestamptz NOT NULL DEFAULT now(),
    claimed_until timestamptz,
    ended_at      timestamptz,
    is_sent       boolean NOT NULL DEFAULT false
);
CREATE INDEX alert_messages_unsent ON alert_messages (destination, id) WHERE ended_at IS NULL;

-- What each instance last said about itself, for the leader.
CREATE TABLE instance_readings (
    instance_name text PRIMARY KEY,
    reading       jsonb NOT NULL,
    read_at       timestamptz NOT NULL
);

-- When each term began, to notice a leadership that changes too often.
CREATE TABLE leader_terms (
    term     bigint PRIMARY KEY,
    holder   text NOT NULL,
    began_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX leader_terms_by_time ON leader_terms (began_at);

-- Since when a device is too hot, and how hot it was then; 0 if its driver does not say.
ALTER TABLE devices
    ADD COLUMN hot_since   timestamptz,
    ADD COLUMN hot_celsius double precision NOT NULL DEFAULT 0;
CREATE INDEX devices_in_trouble ON devices (id) WHERE hot_since IS NOT NULL OR availability = 'sick';

-- Errors of all instances, one row for each kind and place, so that their number is bounded.
CREATE TABLE error_groups (
    fingerprint text PRIMARY KEY,
    kind        text NOT NULL,
    place       text NOT NULL,
    message     text NOT NULL,
    trace       text NOT NULL,
    instance    text NOT NULL,
    occurrences bigint NOT NULL,
    first_at    timestamptz NOT NULL,
    last_at     timestamptz NOT NULL
);
CREATE INDEX error_groups_by_time ON error_groups (last_at);
