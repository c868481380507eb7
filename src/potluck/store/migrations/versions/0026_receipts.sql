-- Receipts: what a node signed about an attempt, and what the server countersigned. The receipts of a
-- node form a chain. And the prices that devices had.

CREATE TABLE receipt_chains (
    node_id     text COLLATE "C" NOT NULL REFERENCES nodes,
    chain       text COLLATE "C" NOT NULL,
    -- Of the node, from 1: a node that lost its file, or whose chain was refused, starts another one.
    ordinal     integer NOT NULL,
    node_key    text NOT NULL,
    receipts    bigint NOT NULL DEFAULT 0,
    last_digest text NOT NULL,
    -- Receipts that would have forked the chain.
    forks       integer NOT NULL DEFAULT 0,
    started_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (node_id, chain),
    UNIQUE (node_id, ordinal)
);

CREATE TABLE receipts (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id          text COLLATE "C" NOT NULL,
    chain            text COLLATE "C" NOT NULL,
    number           bigint NOT NULL,
    digest           text NOT NULL,
    -- No foreign keys here: a batch would lock attempts in the order of the chain, and not of ids.
    attempt_id       text COLLATE "C" NOT NULL,
    provider_id      text COLLATE "C" NOT NULL,
    consumer_id      text COLLATE "C" NOT NULL,
    is_last          boolean NOT NULL,
    receipt          jsonb NOT NULL,
    node_signature   text NOT NULL,
    countersignature jsonb NOT NULL,
    server_signature text NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    -- One receipt at each place of a chain: a chain cannot fork.
    UNIQUE (node_id, chain, number),
    FOREIGN KEY (node_id, chain) REFERENCES receipt_chains
);
CREATE INDEX receipts_by_attempt ON receipts (attempt_id);
CREATE UNIQUE INDEX receipts_last ON receipts (attempt_id) WHERE is_last;
CREATE INDEX receipts_by_provider ON receipts (provider_id, id);
CREATE INDEX receipts_by_consumer ON receipts (consumer_id, id);

-- What a device cost from when on; written by the trigger below, and never changed.
CREATE TABLE device_prices (
    device_id            text COLLATE "C" NOT NULL REFERENCES devices,
    since                timestamptz NOT NULL,
    price_micro_per_hour bigint NOT NULL,
    PRIMARY KEY (device_id, since)
);
INSERT INTO device_prices (device_id, since, price_micro_per_hour)
SELECT id, now(), price_micro_per_hour FROM devices;

CREATE FUNCTION record_device_price() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- By the clock: two prices of one transaction are two rows.
    INSERT INTO device_prices (device_id, since, price_micro_per_hour)
    VALUES (NEW.id, clock_timestamp(), NEW.price_micro_per_hour);
    RETURN NULL;
END $$;
CREATE TRIGGER device_price_set AFTER INSERT ON devices
    FOR EACH ROW EXECUTE FUNCTION record_device_price();
CREATE TRIGGER device_price_changed AFTER UPDATE OF price_micro_per_hour ON devices
    FOR EACH ROW WHEN (OLD.price_micro_per_hour <> NEW.price_micro_per_hour)
    EXECUTE FUNCTION record_device_price();
