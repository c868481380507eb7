-- A wallet's yes to a terminal, good for one session. Who only asks leaves no row.
CREATE TABLE terminal_approvals (
    -- Of the device code, which the terminal alone knows: reading this table lets nobody in.
    code_hash  bytea PRIMARY KEY CHECK (length(code_hash) = 32),
    -- Not the account: this row is written first, so that two who approve one code do not meet later.
    address    text COLLATE "C" NOT NULL,
    machine    text NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX terminal_approvals_by_expiry ON terminal_approvals (expires_at);
