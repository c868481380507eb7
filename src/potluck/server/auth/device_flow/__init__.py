"""Signing in a terminal through a browser (RFC 8628, which calls the terminal a device)."""
