-- Keys that wallets have authorised to speak for one node. The wallet's word is kept with it.
CREATE TABLE node_keys (
    id         text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL REFERENCES accounts,
    address    text NOT NULL,
    machine    text NOT NULL,
    origin     text NOT NULL,
    scopes     text[] NOT NULL CHECK (scopes = ARRAY['node']),
    nonce      text NOT NULL,
    signature  text NOT NULL,
    issued_at  timestamptz NOT NULL,
    expires_at timestamptz NOT NULL CHECK (expires_at > issued_at),
    used_at    timestamptz,
    revoked_at timestamptz
);
-- A key works for one wallet, by one delegation: a newer one takes the older one's place.
CREATE UNIQUE INDEX node_keys_one_wallet ON node_keys (address) WHERE revoked_at IS NULL;
CREATE INDEX node_keys_of_account ON node_keys (account_id) WHERE revoked_at IS NULL;

-- A node belongs to the key that registered it. Nodes from before have none: they register anew.
ALTER TABLE nodes ADD COLUMN node_key_id text COLLATE "C" REFERENCES node_keys;
UPDATE nodes SET state = 'left';
-- One key, one node: a machine that has forgotten its node's id finds it by its key.
CREATE UNIQUE INDEX nodes_one_of_key ON nodes (node_key_id);

-- Whether work may be given to a device: only if it is bound to the wallet that shows it.
ALTER TABLE devices ADD COLUMN standing text NOT NULL DEFAULT 'foreign'
    CHECK (standing IN ('bound', 'elsewhere', 'contested', 'foreign'));
CREATE INDEX devices_by_uuid ON devices (uuid);

-- One device, one wallet, and one of its nodes. Locked before nodes and devices, in the order of
-- uuids.
CREATE TABLE bindings (
    uuid       text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL REFERENCES accounts,
    node_id    text COLLATE "C" REFERENCES nodes,
    bound_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX bindings_of_account ON bindings (account_id);

-- Another wallet shows a bound device: both are challenged, each until its own time. Whether the
-- answer was right is null until there is one.
CREATE TABLE contests (
    uuid         text COLLATE "C" PRIMARY KEY REFERENCES bindings ON DELETE CASCADE,
    contender_id text COLLATE "C" NOT NULL REFERENCES accounts,
    seed         bytea NOT NULL CHECK (length(seed) = 32),
    incumbent_by timestamptz NOT NULL,
    contender_by timestamptz NOT NULL,
    incumbent_was_right boolean,
    contender_was_right boolean
);

-- Who contested a device in vain, so that it does not do so again and again.
CREATE TABLE lost_contests (
    uuid         text COLLATE "C" NOT NULL REFERENCES bindings ON DELETE CASCADE,
    contender_id text COLLATE "C" NOT NULL REFERENCES accounts,
    lost_at      timestamptz NOT NULL,
    PRIMARY KEY (uuid, contender_id)
);
