-- Deposits and payouts through a contract on a chain. Everything is kept by chain and contract: a
-- contract that replaces another one starts with nothing claimed.

-- A contract that this ledger works with. The rate is that of its first day: token_units of the
-- token's smallest unit are credit_micro micro-credits.
CREATE TABLE chain_contracts (
    chain_id     bigint NOT NULL CHECK (chain_id > 0),
    contract     text COLLATE "C" NOT NULL,
    token        text NOT NULL,
    token_units  bigint NOT NULL CHECK (token_units > 0),
    credit_micro bigint NOT NULL CHECK (credit_micro > 0),
    -- The last block whose events were taken, and its hash; NULL if none was.
    scanned_block bigint NOT NULL,
    scanned_hash  bytea CHECK (length(scanned_hash) = 32),
    -- The last block that the chain was seen to have.
    head_block    bigint,
    -- Nothing is credited or proposed until an admin has looked.
    halted_at      timestamptz,
    halted_because text,
    -- Why no root is proposed or accepted, although one is to be.
    waits_since    timestamptz,
    waits_because  text,
    PRIMARY KEY (chain_id, contract),
    CHECK ((halted_at IS NULL) = (halted_because IS NULL)),
    CHECK ((waits_since IS NULL) = (waits_because IS NULL))
);

-- A deposit that has enough confirmations, once for each event of the chain.
CREATE TABLE chain_deposits (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id         bigint NOT NULL,
    contract         text COLLATE "C" NOT NULL,
    transaction_hash bytea NOT NULL CHECK (length(transaction_hash) = 32),
    log_index        integer NOT NULL,
    block_number     bigint NOT NULL,
    block_hash       bytea NOT NULL,
    -- The wallet it is for, which may get its account later, and who paid.
    address          text NOT NULL,
    payer            text NOT NULL,
    units            numeric(78) NOT NULL CHECK (units > 0),
    -- NULL: more than the ledger can hold, or less than it can count.
    amount_micro     bigint CHECK (amount_micro > 0),
    seen_at          timestamptz NOT NULL DEFAULT now(),
    credited_at      timestamptz,
    UNIQUE (chain_id, contract, transaction_hash, log_index),
    FOREIGN KEY (chain_id, contract) REFERENCES chain_contracts
);
CREATE INDEX chain_deposits_uncredited ON chain_deposits (address)
    WHERE credited_at IS NULL AND amount_micro IS NOT NULL;

-- A root of rewards, numbered as the contract counts its epochs.
CREATE TABLE chain_roots (
    chain_id    bigint NOT NULL,
    contract    text COLLATE "C" NOT NULL,
    number      integer NOT NULL CHECK (number > 0),
    -- The last closed epoch that it covers; NULL: an admin took it over from the contract.
    epoch       integer REFERENCES epochs,
    root        bytea NOT NULL CHECK (length(root) = 32),
    total_units numeric(78) NOT NULL,
    statement   bytea NOT NULL CHECK (length(statement) = 32),
    state       text NOT NULL CHECK (state IN ('planned', 'proposed', 'accepted', 'revoked')),
    planned_at  timestamptz NOT NULL DEFAULT now(),
    proposed_at timestamptz,
    accepted_at timestamptz,
    PRIMARY KEY (chain_id, contract, number),
    FOREIGN KEY (chain_id, contract) REFERENCES chain_contracts
);
CREATE UNIQUE INDEX chain_roots_one_open ON chain_roots (chain_id, contract)
    WHERE state <> 'accepted';

-- What a root gives an account for the first time; its leaf is the sum up to that root.
CREATE TABLE chain_rewards (
    chain_id     bigint NOT NULL,
    contract     text COLLATE "C" NOT NULL,
    number       integer NOT NULL,
    account_id   text COLLATE "C" NOT NULL REFERENCES accounts,
    amount_micro bigint NOT NULL CHECK (amount_micro > 0),
    PRIMARY KEY (chain_id, contract, account_id, number),
    FOREIGN KEY (chain_id, contract, number) REFERENCES chain_roots
);
CREATE TRIGGER chain_rewards_are_final BEFORE UPDATE OR DELETE OR TRUNCATE ON chain_rewards
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();

-- Of what is claimable: in roots of contracts, and not seen to be claimed. It cannot be paid in
-- another way.
ALTER TABLE balances
    ADD COLUMN assigned_micro bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT balances_assigned_check
        CHECK (assigned_micro BETWEEN 0 AND claimable_micro);

-- A claim that has enough confirmations. It becomes a payout with the same transaction and index.
CREATE TABLE chain_claims (
    chain_id         bigint NOT NULL,
    contract         text COLLATE "C" NOT NULL,
    transaction_hash bytea NOT NULL CHECK (length(transaction_hash) = 32),
    log_index        integer NOT NULL,
    block_number     bigint NOT NULL,
    block_hash       bytea NOT NULL,
    address          text NOT NULL,
    units            numeric(78) NOT NULL CHECK (units > 0),
    cumulative_units numeric(78) NOT NULL,
    root             bytea NOT NULL,
    amount_micro     bigint NOT NULL CHECK (amount_micro > 0),
    seen_at          timestamptz NOT NULL DEFAULT now(),
    -- NULL as long as the ledger has assigned less to the contract than this account has claimed.
    payout_id        text COLLATE "C" REFERENCES payouts,
    PRIMARY KEY (chain_id, contract, transaction_hash, log_index),
    FOREIGN KEY (chain_id, contract) REFERENCES chain_contracts
);
CREATE INDEX chain_claims_of_wallet ON chain_claims (address);
CREATE UNIQUE INDEX chain_claims_payout ON chain_claims (payout_id) WHERE payout_id IS NOT NULL;
CREATE INDEX chain_claims_unpaid ON chain_claims (chain_id, contract, block_number, log_index)
    WHERE payout_id IS NULL;

-- The outbox of the treasury. A transaction keeps its nonce.
CREATE TABLE chain_transactions (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id     bigint NOT NULL,
    contract     text COLLATE "C" NOT NULL,
    number       integer NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('propose', 'accept')),
    sender       text NOT NULL,
    nonce        bigint NOT NULL CHECK (nonce >= 0),
    gas          bigint NOT NULL CHECK (gas > 0),
    state        text NOT NULL DEFAULT 'intended' CHECK (state IN (
        'intended', 'signed', 'broadcast', 'confirmed', 'failed', 'superseded')),
    created_at   timestamptz NOT NULL DEFAULT now(),
    settled_at   timestamptz,
    -- Of the version that is in the chain.
    hash         bytea,
    block_number bigint,
    UNIQUE (chain_id, sender, nonce),
    FOREIGN KEY (chain_id, contract, number) REFERENCES chain_roots,
    CHECK ((settled_at IS NULL) = (state IN ('intended', 'signed', 'broadcast')))
);
CREATE UNIQUE INDEX chain_transactions_one_open ON chain_transactions (chain_id, contract)
    WHERE settled_at IS NULL;
-- Signatures of a transaction, all with its nonce; each pays a higher fee than the one before.
CREATE TABLE chain_transaction_versions (
    transaction_id bigint NOT NULL REFERENCES chain_transactions,
    version        integer NOT NULL CHECK (version > 0),
    raw            bytea NOT NULL,
    hash           bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    max_fee        numeric(78) NOT NULL,
    max_tip        numeric(78) NOT NULL,
    signed_at      timestamptz NOT NULL DEFAULT now(),
    broadcast_at   timestamptz,
    PRIMARY KEY (transaction_id, version)
);

ALTER TABLE ledger_entries
    ADD COLUMN deposit_id bigint REFERENCES chain_deposits,
    DROP CONSTRAINT ledger_entries_kind_check,
    DROP CONSTRAINT ledger_entries_purse_check,
    DROP CONSTRAINT ledger_entries_check,
    DROP CONSTRAINT ledger_entries_check1,
    ADD CONSTRAINT ledger_entries_kind_check CHECK (kind IN (
        'grant', 'hold', 'charge', 'reward', 'refund', 'release', 'reversal', 'fee', 'epoch', 'payout',
        'deposit')),
    ADD CONSTRAINT ledger_entries_purse_check CHECK (purse IN (
        'available', 'held', 'held_back', 'claimable', 'issued', 'fees', 'paid', 'deposited')),
    ADD CONSTRAINT ledger_entries_check
        CHECK ((account_id IS NULL) = (purse IN ('issued', 'fees', 'paid', 'deposited'))),
    ADD CONSTRAINT ledger_entries_check1
        CHECK ((attempt_id IS NULL) = (kind IN ('grant', 'epoch', 'payout', 'deposit'))),
    ADD CONSTRAINT ledger_entries_of_deposit CHECK ((deposit_id IS NULL) = (kind <> 'deposit'));
-- No deposit is credited twice.
CREATE UNIQUE INDEX ledger_entries_once_deposited ON ledger_entries (deposit_id, purse)
    WHERE deposit_id IS NOT NULL;
