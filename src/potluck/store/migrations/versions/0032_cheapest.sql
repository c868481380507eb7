-- The cheapest offers of a kind, without reading all devices for each submission.
CREATE INDEX devices_by_price ON devices (kind, price_micro_per_hour)
    WHERE is_present AND standing = 'bound';
