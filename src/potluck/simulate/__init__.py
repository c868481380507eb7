"""The same code as the server's, on traces and through faults, with virtual time."""
