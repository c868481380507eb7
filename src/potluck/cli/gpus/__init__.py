"""The devices on offer in the pool."""
