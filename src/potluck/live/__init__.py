"""What may be rebuilt: wake-ups and values that expire, in process or in Redis."""
