"""The connection to the server: sign-in, lease poll, heartbeat, reports and log upload."""
