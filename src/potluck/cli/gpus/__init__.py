"""What is on offer in the pool, for those who want some of it."""
