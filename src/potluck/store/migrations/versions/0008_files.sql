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
    -- Until then it stays, whether a task names it or not.
    pinned_until timestamptz NOT NULL,
    PRIMARY KEY (account_id, sha256)
);
CREATE INDEX blob_claims_by_blob ON blob_claims (sha256);
CREATE INDEX blob_claims_by_pin ON blob_claims (pinned_until);

-- What a task names, and what it has left.
CREATE TABLE task_blobs (
    task_id    text COLLATE "C" NOT NULL REFERENCES tasks,
    role       text NOT NULL CHECK (role IN ('input', 'output', 'result', 'checkpoint')),
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

ALTER TABLE tasks
    ADD COLUMN sealed_secrets bytea,
    ADD COLUMN secrets_by     bytea GENERATED ALWAYS AS (substring(sealed_secrets FROM 2 FOR 4)) STORED,
    -- How many rows of `results` it has.
    ADD COLUMN result_count   integer NOT NULL DEFAULT 0,
    -- Its files and results were removed then, as the policy says.
    ADD COLUMN cleared_at     timestamptz;
CREATE INDEX tasks_to_clear ON tasks (finished_at) WHERE finished_at IS NOT NULL AND cleared_at IS NULL;

ALTER TABLE accounts ADD COLUMN max_blob_bytes bigint CHECK (max_blob_bytes >= 0);
