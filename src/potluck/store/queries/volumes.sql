-- Locked in the order of blobs.sql: the account's use, its volumes, versions by volume and hash, then its
-- claims by hash. A submission holds versions before claims, as the removal of a version does.

-- name: list
-- Those of the account, and those that others share with it.
SELECT volumes.id, name, address AS owner, account_id = :account_id AS is_own, keep_versions,
    keep_seconds, live.*,
    CASE WHEN account_id = :account_id THEN ARRAY(
        SELECT wallet FROM volume_shares WHERE volume_id = volumes.id ORDER BY wallet)
        ELSE '{}' END AS shared_with,
    stored_bytes
FROM volumes JOIN accounts ON accounts.id = account_id
CROSS JOIN LATERAL (
    SELECT count(*) OVER () AS versions, version, manifest, manifest_bytes, size_bytes, files,
        put_at, used_at
    FROM volume_versions WHERE volume_id = volumes.id AND removed_at IS NULL
    ORDER BY put_at DESC, version LIMIT 1
) AS live
WHERE (account_id = :account_id OR EXISTS (
        SELECT FROM volume_shares JOIN accounts AS reader ON reader.address = wallet
        WHERE volume_id = volumes.id AND reader.id = :account_id))
    AND volumes.id > :after_id AND (:volume_id::text IS NULL OR volumes.id = :volume_id)
ORDER BY volumes.id LIMIT :limit

-- name: versions
SELECT version, manifest, manifest_bytes, size_bytes, files, put_at, used_at
FROM volume_versions WHERE volume_id = :volume_id AND removed_at IS NULL
ORDER BY put_at DESC, version

-- name: lock_own
SELECT id FROM volumes WHERE id = :volume_id AND account_id = :account_id FOR UPDATE

-- name: make
-- The row of `blob_use` is locked: no other makes a volume of this account meanwhile.
INSERT INTO volumes (id, account_id, name) VALUES (:volume_id, :account_id, :name)
ON CONFLICT (account_id, name) DO UPDATE SET name = excluded.name
RETURNING id, (SELECT count(*) FROM volumes WHERE account_id = :account_id) AS volumes

-- name: newest
SELECT version, (SELECT count(*) FROM volume_versions WHERE volume_id = :volume_id) AS versions
FROM volume_versions WHERE volume_id = :volume_id AND removed_at IS NULL
ORDER BY put_at DESC, version LIMIT 1

-- name: put_again
-- The same content once more is the newest, and keeps its first manifest.
UPDATE volume_versions SET put_at = now(), used_at = now(), removed_at = NULL
WHERE volume_id = :volume_id AND version = :version
RETURNING version, manifest, manifest_bytes, size_bytes, files, put_at, used_at

-- name: put
INSERT INTO volume_versions (volume_id, version, manifest, manifest_bytes, size_bytes, files)
VALUES (:volume_id, :new.version, :new.manifest, :new.manifest_bytes, :new.size_bytes, :new.files)
RETURNING version, manifest, manifest_bytes, size_bytes, files, put_at, used_at

-- name: add_blobs
INSERT INTO volume_blobs (volume_id, version, account_id, sha256, spans)
SELECT :volume_id, :version, :account_id, sha256,
    nullif(string_to_array(spans, ',')::bigint[], '{}')
FROM unnest(:hashes::bytea[], :spans::text[]) AS new (sha256, spans)

-- name: pin
WITH named AS (
    SELECT account_id, sha256 FROM blob_claims
    WHERE account_id = :account_id AND sha256 = ANY(:hashes::bytea[])
    ORDER BY sha256
    FOR NO KEY UPDATE
)
UPDATE blob_claims SET pinned_until = 'infinity', look_at = 'infinity'
FROM named WHERE blob_claims.account_id = named.account_id AND blob_claims.sha256 = named.sha256

-- name: remove
WITH gone AS (
    SELECT volume_id, version FROM volume_versions
    WHERE volume_id = :volume_id AND removed_at IS NULL
        AND (:version::bytea IS NULL OR version = :version)
    ORDER BY version
    FOR NO KEY UPDATE
)
UPDATE volume_versions SET removed_at = now()
FROM gone
WHERE volume_versions.volume_id = gone.volume_id AND volume_versions.version = gone.version
RETURNING volume_versions.version

-- name: forget_settings
-- A later volume of the same name is another one.
WITH gone AS (DELETE FROM volume_shares WHERE volume_id = :volume_id)
UPDATE volumes SET keep_versions = NULL, keep_seconds = NULL WHERE id = :volume_id

-- name: forget_ended_mounts
-- Of removed versions: so the statements below need not look at every task that ever mounted one. Some
-- of each version at a time; no new task mounts it meanwhile. What another transaction forgets already
-- is skipped, so that the two never wait for each other.
WITH ended AS (
    SELECT mounts.* FROM volume_versions JOIN volumes ON volumes.id = volume_id
    CROSS JOIN LATERAL (
        SELECT task_id, task_volumes.volume_id, task_volumes.version FROM task_volumes
        WHERE task_volumes.volume_id = volume_versions.volume_id
            AND task_volumes.version = volume_versions.version
        LIMIT :most
    ) AS mounts JOIN tasks ON tasks.id = task_id
    WHERE removed_at IS NOT NULL AND finished_at IS NOT NULL
        AND (:account_id::text IS NULL OR volumes.account_id = :account_id)
), forgotten AS (
    SELECT task_volumes.task_id, task_volumes.volume_id, task_volumes.version
    FROM task_volumes JOIN ended ON task_volumes.task_id = ended.task_id
        AND task_volumes.volume_id = ended.volume_id AND task_volumes.version = ended.version
    FOR UPDATE OF task_volumes SKIP LOCKED
)
DELETE FROM task_volumes USING forgotten
WHERE task_volumes.task_id = forgotten.task_id AND task_volumes.volume_id = forgotten.volume_id
    AND task_volumes.version = forgotten.version

-- name: removable
-- Removed, and of no task that has not ended.
SELECT account_id, volume_id, version FROM volume_versions JOIN volumes ON volumes.id = volume_id
WHERE removed_at IS NOT NULL AND (:account_id::text IS NULL OR account_id = :account_id)
    AND NOT EXISTS (
        SELECT FROM task_volumes
        WHERE task_volumes.volume_id = volume_versions.volume_id
            AND task_volumes.version = volume_versions.version)
ORDER BY removed_at LIMIT :limit

-- name: lock_removable
-- A new task holds its versions with a weaker lock until it is stored.
SELECT version FROM volume_versions
WHERE volume_id = :gone.volume_id AND version = :gone.version AND removed_at IS NOT NULL
FOR UPDATE

-- name: is_mounted
SELECT EXISTS (
    SELECT FROM task_volumes WHERE volume_id = :gone.volume_id AND version = :gone.version)

-- name: drop_blobs
DELETE FROM volume_blobs WHERE volume_id = :gone.volume_id AND version = :gone.version RETURNING sha256

-- name: unpin
-- Those that no version has any more become due at once.
WITH free AS (
    SELECT account_id, sha256 FROM blob_claims
    WHERE account_id = :gone.account_id AND sha256 = ANY(:hashes::bytea[])
        AND NOT EXISTS (
            SELECT FROM volume_blobs
            WHERE volume_blobs.account_id = :gone.account_id
                AND volume_blobs.sha256 = blob_claims.sha256)
    ORDER BY sha256
    FOR NO KEY UPDATE
)
UPDATE blob_claims SET pinned_until = now(), look_at = now()
FROM free WHERE blob_claims.account_id = free.account_id AND blob_claims.sha256 = free.sha256

-- name: drop_version
DELETE FROM volume_versions WHERE volume_id = :gone.volume_id AND version = :gone.version

-- name: drop_empty
WITH empty AS (
    SELECT id FROM volumes
    WHERE id = :gone.volume_id AND NOT EXISTS (SELECT FROM volume_versions WHERE volume_id = volumes.id)
    FOR UPDATE
), shares AS (
    DELETE FROM volume_shares WHERE volume_id IN (SELECT id FROM empty)
)
DELETE FROM volumes WHERE id IN (SELECT id FROM empty)

-- name: expire
-- By the owners' rules: too many versions, or not used for too long.
WITH due AS (
    SELECT versions.volume_id, versions.version FROM (
        SELECT volume_id, version, keep_versions, keep_seconds, used_at,
            row_number() OVER (PARTITION BY volume_id ORDER BY put_at DESC, version) AS place
        FROM volume_versions JOIN volumes ON volumes.id = volume_id
        WHERE removed_at IS NULL AND (keep_versions IS NOT NULL OR keep_seconds IS NOT NULL)
    ) AS kept JOIN volume_versions AS versions USING (volume_id, version)
    WHERE place > keep_versions OR kept.used_at < now() - make_interval(secs => keep_seconds)
    ORDER BY versions.volume_id, versions.version
    FOR NO KEY UPDATE OF versions
)
UPDATE volume_versions SET removed_at = now()
FROM due
WHERE volume_versions.volume_id = due.volume_id AND volume_versions.version = due.version

-- name: change
UPDATE volumes SET
    keep_versions = CASE WHEN :sets_versions THEN :keep_versions ELSE keep_versions END,
    keep_seconds = CASE WHEN :sets_seconds THEN :keep_seconds ELSE keep_seconds END
WHERE id = :volume_id

-- name: share
WITH gone AS (
    DELETE FROM volume_shares WHERE volume_id = :volume_id AND wallet <> ALL(:wallets::text[])
)
INSERT INTO volume_shares (volume_id, wallet)
SELECT :volume_id, wallet FROM unnest(:wallets::text[]) AS new (wallet)
ON CONFLICT DO NOTHING

-- name: mountable
-- All versions of volumes with these names that the account may mount, newest first.
SELECT volumes.id, name, address AS owner, account_id = :account_id AS is_own, version, manifest,
    manifest_bytes, size_bytes
FROM volumes JOIN accounts ON accounts.id = account_id
JOIN volume_versions ON volume_id = volumes.id AND removed_at IS NULL
WHERE name = ANY(:names::text[])
    AND (account_id = :account_id OR EXISTS (
        SELECT FROM volume_shares JOIN accounts AS reader ON reader.address = wallet
        WHERE volume_shares.volume_id = volumes.id AND reader.id = :account_id))
ORDER BY put_at DESC, version

-- name: mount
-- Holds the versions; fewer rows than asked for if one was removed meanwhile.
WITH held AS (
    SELECT task_id, volumes.id AS volume_id, volume_versions.version
    FROM unnest(:task_ids::text[], :owners::text[], :names::text[], :versions::bytea[])
        AS new (task_id, owner, name, version)
    JOIN accounts ON address = owner
    JOIN volumes ON volumes.account_id = accounts.id AND volumes.name = new.name
    JOIN volume_versions ON volume_id = volumes.id AND volume_versions.version = new.version
        AND removed_at IS NULL
    ORDER BY volumes.id, volume_versions.version
    FOR KEY SHARE OF volume_versions
), due AS (
    SELECT volume_id, version FROM volume_versions
    WHERE (volume_id, version) IN (SELECT volume_id, version FROM held)
        AND used_at < now() - interval '1 minute'
    ORDER BY volume_id, version
    FOR NO KEY UPDATE
), used AS (
    UPDATE volume_versions SET used_at = now()
    FROM due
    WHERE volume_versions.volume_id = due.volume_id AND volume_versions.version = due.version
), added AS (
    INSERT INTO task_volumes (task_id, volume_id, version)
    SELECT DISTINCT task_id, volume_id, version FROM held
)
SELECT count(*) FROM held

-- name: of_attempt
-- Blobs of the versions that the task of a live attempt mounts, for its node.
SELECT object_key, blobs.size_bytes, spans FROM attempts
JOIN task_volumes USING (task_id) JOIN volume_blobs USING (volume_id, version)
JOIN blobs USING (sha256)
WHERE attempts.id = :attempt_id AND node_id = :node_id AND finished_at IS NULL
    AND sha256 = :sha256

-- name: of_reader
-- Blobs of volumes that are shared with the account.
SELECT object_key, blobs.size_bytes, spans FROM volume_blobs
JOIN volume_versions USING (volume_id, version) JOIN volume_shares USING (volume_id)
JOIN accounts ON address = wallet JOIN blobs USING (sha256)
WHERE sha256 = :sha256 AND accounts.id = :account_id AND removed_at IS NULL

-- name: holders
-- How many nodes hold each of these, by the key that they say, and the names of the first few.
SELECT holders.* FROM unnest(:keys::text[]) WITH ORDINALITY AS held (key, place)
CROSS JOIN LATERAL (
    SELECT count(*) AS nodes, coalesce(array_agg(holder.name ORDER BY number)
            FILTER (WHERE number <= 5), '{}') AS node_names
    FROM (
        SELECT nodes.name, row_number() OVER (ORDER BY nodes.name) AS number
        FROM nodes WHERE state = 'online' AND held_volumes @> ARRAY[key]
    ) AS holder
) AS holders
ORDER BY place
