"""Requests of the server to addresses that users have chosen."""
