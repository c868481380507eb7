"""`potluck webhooks`: where an account receives its events."""
