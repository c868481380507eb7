"""The embedded PostgreSQL; `EmbeddedPostgres` is the interface.

The binaries come from a wheel, the launcher is ours. It guarantees:

- the data directory is 0700, there is no TCP port, and every connection needs the password;
- a start after any crash finds the committed data, however long the recovery takes;
- an incomplete cluster is never used;
- PostgreSQL ends with the server: cleanly with `stop`, and (on Linux) also after `kill -9`.

The caller holds the lock of the server's data directory. So a process that still uses it is left
over from an earlier server, and is ended.
"""

from potluck.server.postgres.launcher import (
    EmbeddedPostgres,
    StartTimeouts,
    embedded_postgres,
    running_url,
)

__all__ = ["EmbeddedPostgres", "StartTimeouts", "embedded_postgres", "running_url"]
