"""Lease: nodes register, fetch assignments and renew leases. Start with `lease`."""
