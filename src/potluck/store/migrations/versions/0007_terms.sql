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
    ADD COLUMN is_reclaimable   boolean NOT NULL DEFAULT false,
    -- Whether its devices could then be had by several accounts: it stays where it is if its owner
    -- lets no others in any more. What runs already was let in by these rules too.
    ADD COLUMN may_stand_beside boolean NOT NULL DEFAULT true;
ALTER TABLE attempts ALTER COLUMN may_stand_beside SET DEFAULT false;

-- What an owner takes on a device, as he says himself. (Plain expressions, so that they cost no call.)
CREATE FUNCTION takes_kind(terms jsonb, task_kind text) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN coalesce(terms -> 'kinds' = '[]' OR terms -> 'kinds' ? task_kind, true);
-- People write wallets in any case.
CREATE FUNCTION takes_wallet(terms jsonb, wallet text) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN coalesce(
            terms -> 'allow' = '[]' OR lower(terms ->> 'allow')::jsonb ? lower(wallet), true)
        AND NOT coalesce(
            terms -> 'deny' <> '[]' AND lower(terms ->> 'deny')::jsonb ? lower(wallet), false);
-- A card serves so many tasks at a time.
CREATE FUNCTION gives_part(kind text, terms jsonb, milli integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN kind <> 'gpu' OR coalesce(milli >= 1000 / (terms ->> 'fractions')::integer, true);

-- With the kind of the task, which some owners do not take.
CREATE OR REPLACE VIEW scheduled_tasks AS
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
    END AS took_seconds,
    kind
FROM tasks;

-- What a provider has earned lately.
CREATE INDEX attempts_of_provider ON attempts (provider_id, finished_at)
    WHERE finished_at IS NOT NULL;
CREATE INDEX ledger_entries_rewards ON ledger_entries (account_id, created_at)
    WHERE kind = 'reward';

-- Keys may change the terms of one's nodes.
ALTER TABLE api_keys DROP CONSTRAINT api_keys_scopes_check;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_scopes_check CHECK (scopes <@ ARRAY
    ['tasks:read', 'tasks:write', 'pool:read', 'account:read', 'nodes:write']);
