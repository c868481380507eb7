-- A session of a browser has its refresh token in a cookie, and is extended there and nowhere else.
ALTER TABLE sessions ADD COLUMN is_browser boolean NOT NULL DEFAULT false;

-- What a person has saved in the dashboard, as one small value.
CREATE TABLE saved_views (
    account_id text COLLATE "C" PRIMARY KEY REFERENCES accounts,
    views      jsonb NOT NULL CHECK (pg_column_size(views) <= 131072),
    updated_at timestamptz NOT NULL DEFAULT now()
);
