-- What the versions of a volume keep stored, so that a list of volumes does not add up their packs. A pack
-- of several versions counts once.
ALTER TABLE volumes ADD COLUMN stored_bytes bigint NOT NULL DEFAULT 0;

UPDATE volumes SET stored_bytes = stored.size_bytes FROM (
    SELECT volume_id, sum(size_bytes)::bigint AS size_bytes FROM (
        SELECT DISTINCT volume_id, sha256, blob_claims.size_bytes
        FROM volume_blobs JOIN blob_claims USING (account_id, sha256)
    ) AS pack GROUP BY volume_id
) AS stored WHERE volumes.id = stored.volume_id;

-- Triggers, so that it stays true while servers before this migration run, too. A statement adds or
-- removes packs of one version, and the row of the account's use is locked.
CREATE FUNCTION count_stored_packs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE volumes SET stored_bytes = stored_bytes
        + CASE TG_OP WHEN 'INSERT' THEN counted.size_bytes ELSE -counted.size_bytes END
    FROM (
        SELECT changed.volume_id, sum(blob_claims.size_bytes)::bigint AS size_bytes
        FROM changed JOIN blob_claims USING (account_id, sha256)
        WHERE NOT EXISTS (
            SELECT FROM volume_blobs AS other
            WHERE other.account_id = changed.account_id AND other.sha256 = changed.sha256
                AND other.volume_id = changed.volume_id AND other.version <> changed.version)
        GROUP BY changed.volume_id
    ) AS counted WHERE volumes.id = counted.volume_id;
    RETURN NULL;
END $$;
CREATE TRIGGER volume_blobs_added AFTER INSERT ON volume_blobs
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_stored_packs();
CREATE TRIGGER volume_blobs_dropped AFTER DELETE ON volume_blobs
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_stored_packs();
