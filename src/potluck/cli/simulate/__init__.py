"""`potluck simulate`: the pool on traces and through faults, before it is a pool."""
