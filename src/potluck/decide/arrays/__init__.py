"""Arrays: how they are split into ranges, and which reported items count."""
