"""State that can be rebuilt: wake-ups and expiring values, in process or in Redis."""
