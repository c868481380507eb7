"""The bubblewrap driver."""
