-- name: offer_lease_secret
-- The first instance to come decides; the others take what it chose.
INSERT INTO installation (lease_secret) VALUES ($1) ON CONFLICT DO NOTHING

-- name: lease_secret
SELECT lease_secret FROM installation
