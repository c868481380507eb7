-- What a task is made of, and the secret that all instances share, are sealed: see store/vault.py.
-- SQL has no key, so what is here in the clear is sealed by the server's next start.

ALTER TABLE tasks
    ADD COLUMN kind         text,
    ADD COLUMN requirements jsonb,
    ADD COLUMN limits       jsonb,
    ADD COLUMN max_attempts integer,
    ADD COLUMN sealed_spec  bytea,
    -- The id of the key that sealed it, which stands in front of it.
    ADD COLUMN sealed_by    bytea GENERATED ALWAYS AS (substring(sealed_spec FROM 2 FOR 4)) STORED;
UPDATE tasks SET
    kind = request->'spec'->>'kind',
    requirements = request->'requirements',
    limits = request->'limits',
    max_attempts = (request->>'max_attempts')::integer;
ALTER TABLE tasks
    ALTER COLUMN kind SET NOT NULL,
    ALTER COLUMN requirements SET NOT NULL,
    ALTER COLUMN limits SET NOT NULL,
    ALTER COLUMN max_attempts SET NOT NULL,
    -- Ciphertext does not get smaller, so nobody need try.
    ALTER COLUMN sealed_spec SET STORAGE EXTERNAL,
    -- From before, until it is sealed. Nothing new is written to it.
    ALTER COLUMN request DROP NOT NULL,
    ADD CONSTRAINT tasks_sealed CHECK (num_nonnulls(request, sealed_spec) = 1);
-- What is left to rewrite, and which keys are still needed.
CREATE INDEX tasks_by_key ON tasks (sealed_by);
CREATE INDEX tasks_in_the_clear ON tasks (id) WHERE request IS NOT NULL;

ALTER TABLE installation
    ADD COLUMN sealed_secret bytea,
    ALTER COLUMN lease_secret DROP NOT NULL,
    ADD CONSTRAINT installation_sealed CHECK (num_nonnulls(lease_secret, sealed_secret) = 1);
