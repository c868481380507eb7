"""The server's own PostgreSQL, for those who have none: `EmbeddedPostgres` is all there is to know.

The binaries come from a wheel, the launcher is ours. What it promises:

- the data directory is 0700, there is no TCP port, and nobody connects without the password;
- a start after any crash finds the committed data, however long the recovery takes;
- a half-made cluster is never taken for a whole one;
- PostgreSQL ends with the server: orderly with `stop`, and (on Linux) also after `kill -9`.

The caller holds the lock on the server's data directory, so that whatever still runs on it is a
leftover of an earlier server, and is ended.
"""

from potluck.server.postgres.launcher import EmbeddedPostgres, StartTimeouts, embedded_postgres

__all__ = ["EmbeddedPostgres", "StartTimeouts", "embedded_postgres"]
