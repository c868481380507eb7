"""Notify: facts leave the outbox as events, streams and webhooks. Start with `notify`."""
