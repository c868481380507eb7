-- name: offer_secret
-- The first instance decides; the others use its choice.
INSERT INTO installation (sealed_secret) VALUES (:sealed_secret) ON CONFLICT DO NOTHING

-- name: lock
-- Held while the secret is resealed, so that rotations run one after the other.
SELECT lease_secret, sealed_secret FROM installation FOR UPDATE

-- name: is_sealed
SELECT EXISTS (SELECT FROM installation WHERE sealed_secret IS NOT NULL)

-- name: seal_secret
UPDATE installation SET sealed_secret = :sealed_secret, lease_secret = NULL
