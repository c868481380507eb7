"""Notify: events leave the outbox to streams and webhooks. Start with `notify`."""
