-- Where an account wants to be told. The address may have a secret in it, so it is sealed with those
-- that sign. All times here are the deliverer's own `now`, which is the database's when it looks.
CREATE TABLE webhooks (
    id                 text COLLATE "C" PRIMARY KEY,
    account_id         text COLLATE "C" NOT NULL REFERENCES accounts,
    name               text NOT NULL,
    kinds              text[] NOT NULL,  -- none: all
    task_id            text COLLATE "C" REFERENCES tasks,
    sealed_destination bytea NOT NULL,
    sealed_by bytea GENERATED ALWAYS AS (substring(sealed_destination FROM 2 FOR 4)) STORED,
    old_secret_until   timestamptz,  -- the secret before also signs until then
    created_at         timestamptz NOT NULL,
    -- Up to which place events have become deliveries. What is behind it is read when there is room.
    place              bigint NOT NULL,
    failures           integer NOT NULL DEFAULT 0,  -- in a row
    failing_since      timestamptz,
    succeeded_at       timestamptz,
    next_at            timestamptz NOT NULL,  -- nothing is sent there before
    paused_at          timestamptz,
    paused_for         text CHECK (paused_for IN ('owner', 'gone', 'failing')),
    paused_detail      text NOT NULL DEFAULT '',
    CHECK ((paused_at IS NULL) = (paused_for IS NULL))
);
CREATE INDEX webhooks_of_account ON webhooks (account_id);
CREATE INDEX webhooks_by_key ON webhooks (sealed_by);
CREATE INDEX webhooks_at_work ON webhooks (next_at) WHERE paused_at IS NULL;

-- One event on its way to one webhook. Of one lane (a task, a node) only the first is sent.
CREATE TABLE deliveries (
    id             text COLLATE "C" PRIMARY KEY,
    webhook_id     text COLLATE "C" NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    event_id       bigint NOT NULL REFERENCES events ON DELETE CASCADE,
    place          bigint NOT NULL,
    lane           text COLLATE "C" NOT NULL,
    state          text NOT NULL DEFAULT 'pending'
        CHECK (state IN ('pending', 'delivered', 'given_up')),
    tries          integer NOT NULL DEFAULT 0,
    first_tried_at timestamptz,
    next_at        timestamptz NOT NULL,
    claimed_until  timestamptz,  -- somebody sends it; whoever that was may have ended
    created_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    CHECK ((state = 'pending') = (ended_at IS NULL))
);
CREATE INDEX deliveries_pending ON deliveries (webhook_id, lane, place) WHERE state = 'pending';
CREATE INDEX deliveries_of_webhook ON deliveries (webhook_id, id);
CREATE INDEX deliveries_of_event ON deliveries (event_id);
CREATE INDEX deliveries_ended ON deliveries (ended_at) WHERE state <> 'pending';

-- What came of each try.
CREATE TABLE delivery_tries (
    delivery_id text COLLATE "C" NOT NULL REFERENCES deliveries ON DELETE CASCADE,
    number      integer NOT NULL,
    at          timestamptz NOT NULL,
    seconds     double precision NOT NULL,
    status      integer,  -- none: no answer
    detail      text NOT NULL,
    PRIMARY KEY (delivery_id, number)
);
