-- Migrations up to 0012 were edited after databases had been made by them. This makes every form of
-- each equal to the last one. It runs last in a new database, where it finds nothing to do, and first
-- in one from before checksums, since later migrations fail on what it repairs: of those that such a
-- database does not have yet, nothing may be assumed here.

-- The number of the newest migration. A server from before checksums reads it, and does not start
-- with one that it does not know.
CREATE TABLE IF NOT EXISTS schema_version (
    version_num varchar(32) NOT NULL,
    CONSTRAINT schema_version_pkc PRIMARY KEY (version_num)
);

CREATE FUNCTION pg_temp.has_column(of_table text, named text) RETURNS boolean LANGUAGE sql
    RETURN EXISTS (SELECT FROM pg_attribute
        WHERE attrelid = to_regclass(of_table) AND attname = named AND NOT attisdropped);

DO $$
DECLARE
    -- Null in a new database, where no condition holds.
    newest text := (SELECT max(version_num) FROM schema_version);
BEGIN
    -- 0001. Its first two forms get no further than 0005, the first one no further than itself.
    IF newest <= '0005' AND pg_temp.has_column('nodes', 'free_cores') THEN
        IF to_regclass('tokens') IS NULL AND newest = '0001' THEN
            -- Tokens are gone with 0002.
            ALTER TABLE accounts DROP COLUMN token_hash;
            CREATE TABLE tokens ();
            CREATE TABLE installation (
                is_only      boolean PRIMARY KEY DEFAULT true CHECK (is_only),
                lease_secret bytea NOT NULL CHECK (length(lease_secret) >= 32)
            );
        END IF;
        ALTER TABLE nodes
            ADD COLUMN used_cores        integer NOT NULL DEFAULT 0 CHECK (used_cores >= 0),
            ADD COLUMN used_memory_bytes bigint NOT NULL DEFAULT 0 CHECK (used_memory_bytes >= 0),
            ADD COLUMN used_disk_bytes   bigint NOT NULL DEFAULT 0 CHECK (used_disk_bytes >= 0);
        UPDATE nodes SET used_cores = cores - free_cores,
            used_memory_bytes = memory_bytes - free_memory_bytes,
            used_disk_bytes = disk_bytes - free_disk_bytes;
        ALTER TABLE nodes
            DROP COLUMN free_cores, DROP COLUMN free_memory_bytes, DROP COLUMN free_disk_bytes;

        -- With the indexes that mention it.
        ALTER TABLE tasks DROP COLUMN queued_at;
        DROP INDEX tasks_with_deadline;
        CREATE INDEX tasks_waiting ON tasks (priority DESC, id) WHERE state = 'queued';
        CREATE INDEX tasks_with_deadline ON tasks (start_before)
            WHERE state = 'queued' AND started_at IS NULL;
        CREATE INDEX tasks_in_back_off ON tasks (not_before)
            WHERE state = 'queued' AND not_before IS NOT NULL;

        ALTER TABLE attempts ADD COLUMN prepare_seconds_limit double precision;
        UPDATE attempts SET prepare_seconds_limit = coalesce(
            (tasks.request -> 'limits' ->> 'prepare_seconds')::double precision, 600)
        FROM tasks WHERE tasks.id = task_id;
        ALTER TABLE attempts
            ALTER COLUMN prepare_seconds_limit SET NOT NULL,
            DROP COLUMN settled_at;
        DROP INDEX attempts_one_live, attempts_live_of_node, attempts_by_expiry;
        CREATE UNIQUE INDEX attempts_one_live ON attempts (task_id) WHERE finished_at IS NULL;
        CREATE INDEX attempts_live_of_node ON attempts (node_id) WHERE finished_at IS NULL;
        CREATE INDEX attempts_by_expiry ON attempts (lease_expires_at) WHERE finished_at IS NULL;
    END IF;

    -- 0003.
    IF newest >= '0003' THEN
        -- By a server that did not fill these columns yet, and did not seal.
        UPDATE tasks SET
            kind = request -> 'spec' ->> 'kind',
            requirements = request -> 'requirements',
            limits = request -> 'limits',
            max_attempts = (request ->> 'max_attempts')::integer
        WHERE kind IS NULL;
        ALTER TABLE tasks
            ALTER COLUMN kind SET NOT NULL,
            ALTER COLUMN requirements SET NOT NULL,
            ALTER COLUMN limits SET NOT NULL,
            ALTER COLUMN max_attempts SET NOT NULL;
    END IF;

    -- 0004.
    IF newest >= '0004' AND NOT pg_temp.has_column('bindings', 'node_id') THEN
        -- Of several nodes of one key, the one that was seen last keeps it.
        UPDATE nodes SET node_key_id = NULL WHERE EXISTS (
            SELECT FROM nodes AS other WHERE other.node_key_id = nodes.node_key_id
                AND (other.heartbeat_at, other.id) > (nodes.heartbeat_at, nodes.id));
        CREATE UNIQUE INDEX nodes_one_of_key ON nodes (node_key_id);
        ALTER TABLE devices DROP CONSTRAINT devices_standing_check;
        ALTER TABLE devices ADD CONSTRAINT devices_standing_check
            CHECK (standing IN ('bound', 'elsewhere', 'contested', 'foreign'));
        ALTER TABLE bindings ADD COLUMN node_id text COLLATE "C" REFERENCES nodes;
        UPDATE bindings SET node_id = (
            SELECT nodes.id FROM devices JOIN nodes ON nodes.id = devices.node_id
            WHERE devices.uuid = bindings.uuid AND is_present
                AND nodes.account_id = bindings.account_id AND state <> 'left'
            ORDER BY (state = 'online' OR free_milli < 1000) DESC, nodes.id
            LIMIT 1);
        -- A card serves at one of the wallet's nodes.
        UPDATE devices SET standing = 'elsewhere'
        FROM bindings
        WHERE bindings.uuid = devices.uuid AND is_present AND kind <> 'cpu' AND standing = 'bound'
            AND devices.node_id IS DISTINCT FROM bindings.node_id;
        ALTER TABLE contests
            ADD COLUMN incumbent_by timestamptz,
            ADD COLUMN contender_by timestamptz,
            ADD COLUMN incumbent_was_right boolean,
            ADD COLUMN contender_was_right boolean;
        UPDATE contests SET incumbent_by = closes_at, contender_by = closes_at,
            incumbent_was_right = CASE WHEN has_incumbent_answered THEN true END,
            contender_was_right = CASE WHEN has_contender_answered THEN true END;
        ALTER TABLE contests
            ALTER COLUMN incumbent_by SET NOT NULL,
            ALTER COLUMN contender_by SET NOT NULL,
            DROP COLUMN closes_at,
            DROP COLUMN has_incumbent_answered,
            DROP COLUMN has_contender_answered;
        CREATE TABLE lost_contests (
            uuid         text COLLATE "C" NOT NULL REFERENCES bindings ON DELETE CASCADE,
            contender_id text COLLATE "C" NOT NULL REFERENCES accounts,
            lost_at      timestamptz NOT NULL,
            PRIMARY KEY (uuid, contender_id)
        );
    END IF;

    -- 0005. Who was about to approve a terminal does so again: it is a matter of minutes.
    IF to_regclass('device_approvals') IS NOT NULL THEN
        DROP TABLE device_approvals;
        CREATE TABLE terminal_approvals (
            code_hash  bytea PRIMARY KEY CHECK (length(code_hash) = 32),
            address    text COLLATE "C" NOT NULL,
            machine    text NOT NULL,
            expires_at timestamptz NOT NULL,
            used_at    timestamptz
        );
        CREATE INDEX terminal_approvals_by_expiry ON terminal_approvals (expires_at);
    END IF;

    -- 0006.
    IF newest >= '0006' THEN
        ALTER TABLE accounts ADD COLUMN IF NOT EXISTS max_priority integer;

        IF NOT pg_temp.has_column('nodes', 'is_polling') THEN
            ALTER TABLE nodes ADD COLUMN is_polling boolean NOT NULL DEFAULT true;
            DROP TRIGGER nodes_changed ON nodes;
            CREATE TRIGGER nodes_changed BEFORE UPDATE ON nodes FOR EACH ROW
                WHEN ((OLD.state, OLD.own_tasks_only, OLD.description, OLD.cores, OLD.memory_bytes,
                       OLD.disk_bytes, OLD.used_cores, OLD.used_memory_bytes, OLD.used_disk_bytes,
                       OLD.lost_attempts, OLD.is_polling)
                    IS DISTINCT FROM
                      (NEW.state, NEW.own_tasks_only, NEW.description, NEW.cores, NEW.memory_bytes,
                       NEW.disk_bytes, NEW.used_cores, NEW.used_memory_bytes, NEW.used_disk_bytes,
                       NEW.lost_attempts, NEW.is_polling))
                EXECUTE FUNCTION stamp_change();
        END IF;
        CREATE INDEX IF NOT EXISTS nodes_heard ON nodes (heartbeat_at) WHERE state <> 'left';
        CREATE INDEX IF NOT EXISTS nodes_online ON nodes (heartbeat_at) WHERE state = 'online';

        CREATE OR REPLACE FUNCTION shares_device(requirements jsonb) RETURNS boolean
            LANGUAGE sql IMMUTABLE
            RETURN coalesce((requirements ->> 'shares_device')::boolean, false);

        -- Which items have succeeded follows from the others.
        ALTER TABLE tasks DROP COLUMN IF EXISTS succeeded;
        IF pg_get_indexdef('tasks_changed'::regclass) LIKE '%(changed)%' THEN
            DROP INDEX tasks_changed;
            CREATE INDEX tasks_changed ON tasks (changed, id);
        END IF;
        IF pg_get_indexdef('tasks_waiting'::regclass) NOT LIKE '%priority DESC%' THEN
            DROP INDEX tasks_waiting;
            CREATE INDEX tasks_waiting ON tasks (account_id, priority DESC, id) WHERE is_waiting;
        END IF;
        CREATE INDEX IF NOT EXISTS tasks_waiting_by_id ON tasks (id) WHERE is_waiting;
        CREATE INDEX IF NOT EXISTS tasks_listed_by_state ON tasks
            ((account_id || '/' || state || '/' || kind), id COLLATE "POSIX" DESC);
        CREATE INDEX IF NOT EXISTS tasks_listed_by_name ON tasks
            ((account_id || '/' || name || '/' || state || '/' || kind), id COLLATE "POSIX" DESC);
        CREATE INDEX IF NOT EXISTS tasks_open ON tasks (account_id, state) WHERE finished_at IS NULL;
        DROP INDEX IF EXISTS tasks_of_account, tasks_of_account_by_state, tasks_of_account_by_name,
            tasks_in_back_off;

        IF pg_temp.has_column('dependencies', 'outcome') THEN
            CREATE TABLE ended_tasks (
                after_id text COLLATE "C" PRIMARY KEY REFERENCES tasks,
                outcome  text NOT NULL
                    CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'expired'))
            );
            -- The leader has yet to let go, or to cancel, what waits for these.
            INSERT INTO ended_tasks (after_id, outcome)
            SELECT DISTINCT ON (after_id) after_id, outcome FROM dependencies
            WHERE outcome IS NOT NULL;
            -- With its indexes.
            ALTER TABLE dependencies DROP COLUMN outcome;
            CREATE INDEX dependencies_after ON dependencies (after_id, task_id);
        END IF;

        IF NOT pg_temp.has_column('attempts', 'items_failed') THEN
            ALTER TABLE attempts ADD COLUMN items_failed integer NOT NULL DEFAULT 0;
            UPDATE attempts SET items_failed = failed.count
            FROM (SELECT attempt_id, count(*) FROM failed_items GROUP BY 1) AS failed
            WHERE attempts.id = failed.attempt_id;
        END IF;
        ALTER TABLE attempts ADD COLUMN IF NOT EXISTS progressed_at timestamptz;
        CREATE INDEX IF NOT EXISTS attempts_failed ON attempts (task_id, node_id)
            WHERE state IN ('failed', 'lost');
        CREATE INDEX IF NOT EXISTS attempts_long ON attempts (finished_at)
            WHERE finished_at - assigned_at > interval '1 h';

        ALTER TABLE leader
            ADD COLUMN IF NOT EXISTS led_until      timestamptz NOT NULL DEFAULT '-infinity',
            ADD COLUMN IF NOT EXISTS forgiven_until timestamptz;
    END IF;
    IF newest BETWEEN '0006' AND '0008' THEN
        -- 0007 or 0009 makes it anew, and could not if it had other columns.
        DROP VIEW IF EXISTS scheduled_tasks;
    END IF;

    -- 0007.
    IF newest >= '0007' THEN
        IF NOT pg_temp.has_column('attempts', 'may_stand_beside') THEN
            -- What runs already was let in by these rules too.
            ALTER TABLE attempts ADD COLUMN may_stand_beside boolean NOT NULL DEFAULT true;
            ALTER TABLE attempts ALTER COLUMN may_stand_beside SET DEFAULT false;
        END IF;
        CREATE OR REPLACE FUNCTION takes_kind(terms jsonb, task_kind text) RETURNS boolean
            LANGUAGE sql IMMUTABLE
            RETURN coalesce(terms -> 'kinds' = '[]' OR terms -> 'kinds' ? task_kind, true);
        CREATE OR REPLACE FUNCTION takes_wallet(terms jsonb, wallet text) RETURNS boolean
            LANGUAGE sql IMMUTABLE
            RETURN coalesce(
                    terms -> 'allow' = '[]' OR lower(terms ->> 'allow')::jsonb ? lower(wallet), true)
                AND NOT coalesce(
                    terms -> 'deny' <> '[]' AND lower(terms ->> 'deny')::jsonb ? lower(wallet), false);
        CREATE OR REPLACE FUNCTION gives_part(kind text, terms jsonb, milli integer) RETURNS boolean
            LANGUAGE sql IMMUTABLE
            RETURN kind <> 'gpu' OR coalesce(milli >= 1000 / (terms ->> 'fractions')::integer, true);
        CREATE INDEX IF NOT EXISTS attempts_of_provider ON attempts (provider_id, finished_at)
            WHERE finished_at IS NOT NULL;
        ALTER TABLE api_keys DROP CONSTRAINT api_keys_scopes_check;
        ALTER TABLE api_keys ADD CONSTRAINT api_keys_scopes_check CHECK (scopes <@ ARRAY
            ['tasks:read', 'tasks:write', 'pool:read', 'account:read', 'nodes:write']);
    END IF;
    IF newest BETWEEN '0007' AND '0012' THEN
        -- 0013 drops it.
        CREATE INDEX IF NOT EXISTS ledger_entries_rewards ON ledger_entries (account_id, created_at)
            WHERE kind = 'reward';
    END IF;

    -- 0008.
    IF newest >= '0008' THEN
        IF to_regclass('blob_use') IS NULL THEN
            ALTER TABLE blob_claims
                ADD COLUMN size_bytes bigint,
                ADD COLUMN look_at    timestamptz;
            UPDATE blob_claims SET size_bytes = blobs.size_bytes, look_at = pinned_until
            FROM blobs WHERE blobs.sha256 = blob_claims.sha256;
            ALTER TABLE blob_claims
                ALTER COLUMN size_bytes SET NOT NULL,
                ALTER COLUMN look_at SET NOT NULL;
            DROP INDEX blob_claims_by_pin;
            CREATE INDEX blob_claims_by_look ON blob_claims (look_at);

            CREATE TABLE blob_use (
                account_id text COLLATE "C" PRIMARY KEY REFERENCES accounts,
                used_bytes bigint NOT NULL DEFAULT 0 CHECK (used_bytes >= 0)
            );
            CREATE FUNCTION counted_bytes(size_bytes bigint) RETURNS bigint
            LANGUAGE sql IMMUTABLE AS $body$ SELECT greatest(size_bytes, 4096) $body$;
            -- To the letter, so that the text of the function is the same.
            CREATE FUNCTION count_blob_use() RETURNS trigger
LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO blob_use (account_id, used_bytes)
        SELECT account_id, sum(counted_bytes(size_bytes)) FROM changed GROUP BY 1
        ON CONFLICT (account_id) DO UPDATE SET used_bytes = blob_use.used_bytes + excluded.used_bytes;
    ELSE
        UPDATE blob_use SET used_bytes = used_bytes - gone.bytes
        FROM (SELECT account_id, sum(counted_bytes(size_bytes)) AS bytes FROM changed GROUP BY 1) AS gone
        WHERE blob_use.account_id = gone.account_id;
    END IF;
    RETURN NULL;
END $body$;
            CREATE TRIGGER count_new_claims AFTER INSERT ON blob_claims
            REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_blob_use();
            CREATE TRIGGER count_gone_claims AFTER DELETE ON blob_claims
            REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_blob_use();
            CREATE TRIGGER count_new_uploads AFTER INSERT ON uploads
            REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_blob_use();
            CREATE TRIGGER count_gone_uploads AFTER DELETE ON uploads
            REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_blob_use();
            INSERT INTO blob_use (account_id, used_bytes)
            SELECT account_id, sum(counted_bytes(size_bytes)) FROM (
                SELECT account_id, size_bytes FROM blob_claims
                UNION ALL SELECT account_id, size_bytes FROM uploads) AS used
            GROUP BY 1;

            ALTER TABLE task_blobs DROP CONSTRAINT task_blobs_role_check;
            ALTER TABLE task_blobs ADD CONSTRAINT task_blobs_role_check
                CHECK (role IN ('input', 'output', 'result', 'checkpoint', 'held'));
            ALTER TABLE results ALTER COLUMN sealed_value SET STORAGE EXTERNAL;
            ALTER TABLE tasks ALTER COLUMN sealed_secrets SET STORAGE EXTERNAL;
        END IF;
        CREATE INDEX IF NOT EXISTS task_blobs_of_attempt ON task_blobs (attempt_id, sha256)
            WHERE attempt_id IS NOT NULL;
        CREATE INDEX IF NOT EXISTS task_blobs_by_path ON task_blobs (task_id, path)
            WHERE role = 'output';
        CREATE INDEX IF NOT EXISTS task_blobs_held ON task_blobs (attempt_id) WHERE role = 'held';
        CREATE INDEX IF NOT EXISTS results_by_key ON results (sealed_by) WHERE sealed_by IS NOT NULL;
        CREATE INDEX IF NOT EXISTS tasks_by_secrets_key ON tasks (secrets_by)
            WHERE secrets_by IS NOT NULL;
        CREATE TABLE IF NOT EXISTS finished_uploads (
            id          text COLLATE "C" PRIMARY KEY,
            account_id  text COLLATE "C" NOT NULL REFERENCES accounts,
            attempt_id  text COLLATE "C" REFERENCES attempts,
            sha256      bytea NOT NULL,
            size_bytes  bigint NOT NULL,
            part_bytes  integer NOT NULL,
            parts_done  integer NOT NULL,
            finished_at timestamptz NOT NULL DEFAULT now()
        );
        CREATE INDEX IF NOT EXISTS finished_uploads_by_time ON finished_uploads (finished_at);
        -- By a server that kept no upload whose bytes had another hash.
        ALTER TABLE finished_uploads
            ADD COLUMN IF NOT EXISTS is_wrong boolean NOT NULL DEFAULT false;
        ALTER TABLE finished_uploads ALTER COLUMN is_wrong DROP DEFAULT;
    END IF;

    -- 0009.
    IF newest >= '0009' THEN
        CREATE OR REPLACE FUNCTION is_news(changed xid8, seen pg_snapshot) RETURNS boolean
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN changed >= pg_snapshot_xmin(seen) AND NOT pg_visible_in_snapshot(changed, seen);
    END IF;

    -- 0010.
    IF newest >= '0010' THEN
        ALTER FUNCTION lock_attempts(text[]) SET enable_seqscan = off;
    END IF;

    -- 0012.
    IF newest >= '0012' AND pg_temp.has_column('events', 'tx') THEN
        -- With its index.
        ALTER TABLE events DROP COLUMN tx, DROP COLUMN delivered_at, ADD COLUMN place bigint;
        UPDATE events SET place = id;
        CREATE INDEX events_unplaced ON events (id) WHERE place IS NULL;
        CREATE UNIQUE INDEX events_placed ON events (place) WHERE place IS NOT NULL;
        CREATE INDEX events_of_account ON events (account_id, place) WHERE place IS NOT NULL;
        CREATE INDEX events_of_task ON events (task_id, place) WHERE place IS NOT NULL;
        CREATE TABLE event_head (
            is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
            place   bigint NOT NULL DEFAULT 0,
            told    bigint NOT NULL DEFAULT 0
        );
        INSERT INTO event_head (place, told)
        SELECT coalesce(max(place), 0), coalesce(max(place), 0) FROM events;
        CREATE TABLE forgotten_events (
            account_id text COLLATE "C" PRIMARY KEY REFERENCES accounts,
            place      bigint NOT NULL
        );
    END IF;
END $$;

DROP FUNCTION pg_temp.has_column(text, text);

-- One row, which is kept up to date from now on.
INSERT INTO schema_version (version_num)
SELECT '0016' WHERE NOT EXISTS (SELECT FROM schema_version);
