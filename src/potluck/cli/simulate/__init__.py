"""`potluck simulate`: the scheduler on recorded traces."""
