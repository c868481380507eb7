"""`potluck admin`: what only admins of the pool may do."""
