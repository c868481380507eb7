"""Functions in sandboxed interpreters that stay warm: loaded once, called many times."""
