-- Keys may read metrics.
ALTER TABLE api_keys DROP CONSTRAINT api_keys_scopes_check;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_scopes_check CHECK (scopes <@ ARRAY
    ['tasks:read', 'tasks:write', 'pool:read', 'account:read', 'nodes:write', 'metrics:read']);
