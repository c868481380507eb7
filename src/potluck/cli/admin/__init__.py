"""`potluck admin`: commands for admins of the pool."""
