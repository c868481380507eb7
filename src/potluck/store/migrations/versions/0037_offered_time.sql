-- For how long a device was offered since a moment. Of the first day all of it counts, so give the
-- beginning of a day (UTC).
CREATE FUNCTION offered_seconds(wanted text, since timestamptz)
RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT sum(days.offered_seconds) FROM device_days AS days
            WHERE device_id = wanted AND day >= (since AT TIME ZONE 'UTC')::date), 0)
        + coalesce((SELECT greatest(0, extract(epoch FROM now() - greatest(offers.since, $2)))
            FROM device_offers AS offers WHERE device_id = wanted), 0)::double precision
$$;
