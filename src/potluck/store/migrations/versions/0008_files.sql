-- Bytes by their hash. A hash is no key: an account may name only what it has a claim on.
CREATE TABLE blobs (
    sha256     bytea PRIMARY KEY CHECK (length(sha256) = 32),
    size_bytes bigint NOT NULL CHECK (size_bytes >= 0),
    -- Of the object, and never used again: who removes an old one can not meet a new one.
    object_key text COLLATE "C" NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Nobody had a claim on it then; it is removed a while later, if still nobody has.
    marked_at  timestamptz
);
CREATE INDEX blobs_marked ON blobs (marked_at) WHERE marked_at IS NOT NULL;

-- An account has uploaded these bytes, or was given them by a task of its own.
CREATE TABLE blob_claims (
    account_id   text COLLATE "C" NOT NULL REFERENCES accounts,
    sha256       bytea NOT NULL REFERENCES blobs,
    size_bytes   bigint NOT NULL,
    -- Until then it stays, whether a task names it or not.
    pinned_until timestamptz NOT NULL,
    -- When it is looked at next: does anything still name it?
    look_at      timestamptz NOT NULL,
    PRIMARY KEY (account_id, sha256)
);
CREATE INDEX blob_claims_by_blob ON blob_claims (sha256);
CREATE INDEX blob_claims_by_look ON blob_claims (look_at);

-- What an account has, and what is on its way to it; locked by whoever adds to it.
CREATE TABLE blob_use (
    account_id text COLLATE "C" PRIMARY KEY REFERENCES accounts,
    used_bytes bigint NOT NULL DEFAULT 0 CHECK (used_bytes >= 0)
);

-- An object costs something however small it is.
CREATE FUNCTION counted_bytes(size_bytes bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT greatest(size_bytes, 4096) $$;

CREATE FUNCTION count_blob_use() RETURNS trigger
LANGUAGE plpgsql AS $$
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
END $$;
CREATE TRIGGER count_new_claims AFTER INSERT ON blob_claims
REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_blob_use();
CREATE TRIGGER count_gone_claims AFTER DELETE ON blob_claims
REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_blob_use();

-- What a task names, and what it has left.
CREATE TABLE task_blobs (
    task_id    text COLLATE "C" NOT NULL REFERENCES tasks,
    -- Held: an attempt has sent it and not yet said what it is.
    role       text NOT NULL CHECK (role IN ('input', 'output', 'result', 'checkpoint', 'held')),
    -- Of an output: the attempt that left it, and its path. Of others: which of several it is.
    attempt_id text COLLATE "C" REFERENCES attempts,
    path       text COLLATE "C" NOT NULL,
    account_id text COLLATE "C" NOT NULL,
    sha256     bytea NOT NULL,
    size_bytes bigint NOT NULL,
    FOREIGN KEY (account_id, sha256) REFERENCES blob_claims (account_id, sha256)
);
CREATE UNIQUE INDEX task_blobs_once ON task_blobs (task_id, role, coalesce(attempt_id, ''), path);
CREATE INDEX task_blobs_by_claim ON task_blobs (account_id, sha256);
CREATE INDEX task_blobs_of_attempt ON task_blobs (attempt_id, sha256) WHERE attempt_id IS NOT NULL;
CREATE INDEX task_blobs_by_path ON task_blobs (task_id, path) WHERE role = 'output';
CREATE INDEX task_blobs_held ON task_blobs (attempt_id) WHERE role = 'held';

-- Bytes on their way.
CREATE TABLE uploads (
    id         text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL REFERENCES accounts,
    -- The attempt that sends it, if it is not the account itself.
    attempt_id text COLLATE "C" REFERENCES attempts,
    sha256     bytea NOT NULL CHECK (length(sha256) = 32),
    size_bytes bigint NOT NULL CHECK (size_bytes >= 0),
    part_bytes integer NOT NULL CHECK (part_bytes > 0),
    parts_done integer NOT NULL DEFAULT 0 CHECK (parts_done >= 0),
    used_at    timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX uploads_once ON uploads (account_id, coalesce(attempt_id, ''), sha256);
CREATE INDEX uploads_by_use ON uploads (used_at);

-- For whoever asks again because an answer was lost.
CREATE TABLE finished_uploads (
    id          text COLLATE "C" PRIMARY KEY,
    account_id  text COLLATE "C" NOT NULL REFERENCES accounts,
    attempt_id  text COLLATE "C" REFERENCES attempts,
    sha256      bytea NOT NULL,
    size_bytes  bigint NOT NULL,
    part_bytes  integer NOT NULL,
    parts_done  integer NOT NULL,
    -- The bytes had another hash, and are gone.
    is_wrong    boolean NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX finished_uploads_by_time ON finished_uploads (finished_at);

CREATE TRIGGER count_new_uploads AFTER INSERT ON uploads
REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_blob_use();
CREATE TRIGGER count_gone_uploads AFTER DELETE ON uploads
REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_blob_use();

-- What functions gave: the values of items from `start` up to `"end"`, or the error of one.
CREATE TABLE results (
    task_id      text COLLATE "C" NOT NULL REFERENCES tasks,
    number       integer NOT NULL,  -- in the order in which they came, from 1 on
    attempt_id   text COLLATE "C" NOT NULL REFERENCES attempts,
    start        integer NOT NULL,
    "end"        integer NOT NULL CHECK ("end" > start),
    is_error     boolean NOT NULL,
    -- One of the two: sealed bytes, or a blob's hash (a row of task_blobs holds it).
    sealed_value bytea,
    sealed_by    bytea GENERATED ALWAYS AS (substring(sealed_value FROM 2 FOR 4)) STORED,
    sha256       bytea,
    size_bytes   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (task_id, number),
    CHECK ((sealed_value IS NULL) <> (sha256 IS NULL))
);
-- Ciphertext does not get smaller, so nobody need try.
ALTER TABLE results ALTER COLUMN sealed_value SET STORAGE EXTERNAL;
CREATE INDEX results_by_key ON results (sealed_by) WHERE sealed_by IS NOT NULL;

ALTER TABLE tasks
    ADD COLUMN sealed_secrets bytea,
    ADD COLUMN secrets_by     bytea GENERATED ALWAYS AS (substring(sealed_secrets FROM 2 FOR 4)) STORED,
    -- How many rows of `results` it has.
    ADD COLUMN result_count   integer NOT NULL DEFAULT 0,
    -- Its files and results were removed then, as the policy says.
    ADD COLUMN cleared_at     timestamptz;
ALTER TABLE tasks ALTER COLUMN sealed_secrets SET STORAGE EXTERNAL;
CREATE INDEX tasks_by_secrets_key ON tasks (secrets_by) WHERE secrets_by IS NOT NULL;
CREATE INDEX tasks_to_clear ON tasks (finished_at) WHERE finished_at IS NOT NULL AND cleared_at IS NULL;

ALTER TABLE accounts ADD COLUMN max_blob_bytes bigint CHECK (max_blob_bytes >= 0);
