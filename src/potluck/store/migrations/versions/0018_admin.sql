-- What admins call an account; unique, since it can be used instead of the wallet.
ALTER TABLE accounts ADD COLUMN label text NOT NULL DEFAULT '';
CREATE UNIQUE INDEX accounts_label ON accounts (lower(label)) WHERE label <> '';

ALTER TABLE invites ADD COLUMN note text NOT NULL DEFAULT '';

-- An admin has cordoned the node: it gets no new work, and running work finishes.
ALTER TABLE nodes
    ADD COLUMN cordoned_at  timestamptz,
    ADD COLUMN cordoned_for text NOT NULL DEFAULT '';
-- As before, and the cordon.
DROP TRIGGER nodes_changed ON nodes;
CREATE TRIGGER nodes_changed BEFORE UPDATE ON nodes FOR EACH ROW
    WHEN ((OLD.state, OLD.own_tasks_only, OLD.description, OLD.cores, OLD.memory_bytes, OLD.disk_bytes,
           OLD.used_cores, OLD.used_memory_bytes, OLD.used_disk_bytes, OLD.lost_attempts, OLD.is_polling,
           OLD.outlier_attempts, OLD.cordoned_at)
        IS DISTINCT FROM
          (NEW.state, NEW.own_tasks_only, NEW.description, NEW.cores, NEW.memory_bytes, NEW.disk_bytes,
           NEW.used_cores, NEW.used_memory_bytes, NEW.used_disk_bytes, NEW.lost_attempts, NEW.is_polling,
           NEW.outlier_attempts, NEW.cordoned_at))
    EXECUTE FUNCTION stamp_change();

-- As tasks_listed_by_state, for all accounts.
CREATE INDEX tasks_of_pool ON tasks ((state || '/' || kind), id COLLATE "POSIX" DESC);
