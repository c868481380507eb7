-- Accounts are wallets. Tokens are gone: people sign in, scripts have keys, nodes have node keys.

ALTER TABLE accounts
    ADD COLUMN address       text,
    ADD COLUMN roles         text[] NOT NULL DEFAULT '{}',
    ADD COLUMN suspended_at  timestamptz,
    ADD COLUMN suspended_for text NOT NULL DEFAULT '';
-- Accounts from before have no wallet; these addresses are nobody's, so nobody signs in as them.
UPDATE accounts SET address = '0x' || substr(encode(sha256(id::bytea), 'hex'), 1, 40);
ALTER TABLE accounts
    ALTER COLUMN address SET NOT NULL,
    ADD CONSTRAINT accounts_one_per_wallet UNIQUE (address),
    ADD CONSTRAINT accounts_roles CHECK (roles <@ ARRAY['consumer', 'provider', 'admin']),
    DROP COLUMN name,
    DROP COLUMN is_operator;
CREATE INDEX accounts_admins ON accounts (id) WHERE 'admin' = ANY (roles);
DROP TABLE tokens;

-- Nonces that a signature has used up. The nonce itself carries its age and who made it.
CREATE TABLE used_nonces (
    nonce      text COLLATE "C" PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
CREATE INDEX used_nonces_by_expiry ON used_nonces (expires_at);

CREATE TABLE sessions (
    id         text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL REFERENCES accounts,
    machine    text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    used_at    timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE INDEX sessions_of_account ON sessions (account_id) WHERE revoked_at IS NULL;
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- One family for a session. The newest is unused; an older one that comes back ends the session.
CREATE TABLE refresh_tokens (
    hash       bytea PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL REFERENCES sessions ON DELETE CASCADE,
    issued_at  timestamptz NOT NULL DEFAULT now(),
    used_at    timestamptz
);
CREATE INDEX refresh_tokens_of_session ON refresh_tokens (session_id);

CREATE TABLE api_keys (
    id         text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL REFERENCES accounts,
    name       text NOT NULL,
    scopes     text[] NOT NULL CHECK (scopes <@ ARRAY
               ['tasks:read', 'tasks:write', 'pool:read', 'account:read']),
    hash       bytea NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    revoked_at timestamptz
);
CREATE INDEX api_keys_of_account ON api_keys (account_id) WHERE revoked_at IS NULL;

CREATE TABLE invites (
    id           text COLLATE "C" PRIMARY KEY,
    hash         bytea NOT NULL UNIQUE,
    roles        text[] NOT NULL CHECK (roles <@ ARRAY['consumer', 'provider', 'admin']),
    credit_micro bigint NOT NULL CHECK (credit_micro >= 0),
    uses_left    integer NOT NULL CHECK (uses_left >= 0),
    made_by      text COLLATE "C" REFERENCES accounts,  -- null: the server, for its first admin
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    revoked_at   timestamptz
);

-- The record of who did what: append-only, each entry's hash covers the one before it.
CREATE TABLE audit (
    number   bigint PRIMARY KEY,
    at       timestamptz NOT NULL,
    kind     text NOT NULL,
    actor    text NOT NULL,
    subject  text NOT NULL,
    detail   jsonb NOT NULL,
    hash     bytea NOT NULL CHECK (length(hash) = 32)
);
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit record is append-only' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();
-- Locked by whoever appends, so that there is one order.
CREATE TABLE audit_head (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    number  bigint NOT NULL DEFAULT 0,
    hash    bytea NOT NULL DEFAULT '\x0000000000000000000000000000000000000000000000000000000000000000'
);
INSERT INTO audit_head DEFAULT VALUES;
