"""The server's own scheduler on recorded traces, with virtual time."""
