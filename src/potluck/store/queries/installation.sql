-- name: offer_secret
-- The first instance to come decides; the others take what it chose.
INSERT INTO installation (sealed_secret) VALUES (:sealed_secret) ON CONFLICT DO NOTHING

-- name: lock
-- Held by whoever seals the secret anew, so that one rotation begins after the other.
SELECT lease_secret, sealed_secret FROM installation FOR UPDATE

-- name: is_sealed
SELECT EXISTS (SELECT FROM installation WHERE sealed_secret IS NOT NULL)

-- name: seal_secret
UPDATE installation SET sealed_secret = :sealed_secret, lease_secret = NULL
