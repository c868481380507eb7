"""`potluck volume` and `potluck cp`."""
