"""Values that the examples of several areas share: one pool, one machine, one task."""
