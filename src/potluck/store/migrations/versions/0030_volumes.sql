-- Volumes: named data sets of an account, which tasks mount read-only.
CREATE TABLE volumes (
    id            text COLLATE "C" PRIMARY KEY,
    account_id    text COLLATE "C" NOT NULL REFERENCES accounts,
    name          text COLLATE "C" NOT NULL,
    -- Older versions are removed; so are those that were not used for this time.
    keep_versions integer CHECK (keep_versions > 0),
    keep_seconds  double precision CHECK (keep_seconds > 0),
    created_at    timestamptz NOT NULL DEFAULT now(),
    UNIQUE (account_id, name)
);

-- One content of a volume, named by its hash.
CREATE TABLE volume_versions (
    volume_id      text COLLATE "C" NOT NULL REFERENCES volumes,
    version        bytea NOT NULL CHECK (length(version) = 32),
    manifest       bytea NOT NULL CHECK (length(manifest) = 32),
    manifest_bytes bigint NOT NULL,
    size_bytes     bigint NOT NULL,
    files          integer NOT NULL,
    put_at         timestamptz NOT NULL DEFAULT now(),
    used_at        timestamptz NOT NULL DEFAULT now(),
    -- Not shown and not mounted by new tasks any more; its rows go when no unfinished task has it.
    removed_at     timestamptz,
    PRIMARY KEY (volume_id, version)
);
CREATE INDEX volume_versions_removed ON volume_versions (removed_at) WHERE removed_at IS NOT NULL;

-- The manifest of a version, and the packs with its chunks. Their claims are pinned for ever, so
-- that servers that do not know of volumes keep them too.
CREATE TABLE volume_blobs (
    volume_id  text COLLATE "C" NOT NULL,
    version    bytea NOT NULL,
    account_id text COLLATE "C" NOT NULL,
    sha256     bytea NOT NULL,
    -- Which bytes belong to the version, as start and end, start and end …; null: all. A pack may
    -- have chunks of other volumes, too.
    spans      bigint[],
    PRIMARY KEY (volume_id, version, sha256),
    FOREIGN KEY (volume_id, version) REFERENCES volume_versions,
    FOREIGN KEY (account_id, sha256) REFERENCES blob_claims (account_id, sha256)
);
CREATE INDEX volume_blobs_by_claim ON volume_blobs (account_id, sha256);
CREATE INDEX volume_blobs_by_blob ON volume_blobs (sha256);

-- Whom the owner lets mount and read it. A wallet need not have an account yet.
CREATE TABLE volume_shares (
    volume_id text COLLATE "C" NOT NULL REFERENCES volumes,
    wallet    text COLLATE "C" NOT NULL,
    PRIMARY KEY (volume_id, wallet)
);
CREATE INDEX volume_shares_by_wallet ON volume_shares (wallet);

-- The versions that a task mounts.
CREATE TABLE task_volumes (
    task_id   text COLLATE "C" NOT NULL REFERENCES tasks,
    volume_id text COLLATE "C" NOT NULL,
    version   bytea NOT NULL,
    PRIMARY KEY (task_id, volume_id, version),
    FOREIGN KEY (volume_id, version) REFERENCES volume_versions
);
CREATE INDEX task_volumes_by_version ON task_volumes (volume_id, version);

-- Which versions a node has said that it holds, so that tasks that mount them go there.
ALTER TABLE nodes ADD COLUMN held_volumes text[] NOT NULL DEFAULT '{}';
CREATE TRIGGER nodes_volumes_changed BEFORE UPDATE ON nodes FOR EACH ROW
    WHEN (OLD.held_volumes IS DISTINCT FROM NEW.held_volumes)
    EXECUTE FUNCTION stamp_change();
