-- Owners' terms, whether a device takes new work, and what owners ask of their nodes from elsewhere.

-- Price and sharing were said of the device itself; they are among its owner's terms now.
UPDATE devices SET description = description - 'price_micro_per_hour' - 'shares_accounts'
    || jsonb_build_object('terms', jsonb_build_object(
        'price_micro_per_hour', price_micro_per_hour,
        'shares_accounts', coalesce((description ->> 'shares_accounts')::boolean, false)));

CREATE OR REPLACE FUNCTION may_serve_several(kind text, description jsonb, all_agree boolean)
    RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN kind = 'cpu' OR coalesce((description ->> 'is_partition')::boolean, false)
        OR coalesce((description -> 'terms' ->> 'shares_accounts')::boolean AND all_agree, false);

ALTER TABLE devices
    -- As the node says; only what is available is planned with.
    ADD COLUMN availability text NOT NULL DEFAULT 'available'
        CHECK (availability IN ('available', 'paused', 'outside_hours', 'in_use', 'sick', 'draining')),
    ADD COLUMN why          text NOT NULL DEFAULT '';

-- What an owner asks of a node from elsewhere, until the node has carried it out.
ALTER TABLE nodes ADD COLUMN last_wish bigint NOT NULL DEFAULT 0;
CREATE TABLE wishes (
    node_id text COLLATE "C" NOT NULL REFERENCES nodes,
    number  bigint NOT NULL,
    wish    jsonb NOT NULL,
    PRIMARY KEY (node_id, number)
);

ALTER TABLE attempts
    -- Whether its devices' owner had said, when it was assigned, that it may be stopped for him.
    ADD COLUMN is_reclaimable boolean NOT NULL DEFAULT false;
