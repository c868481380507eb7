"""Events: the outbox, event lists, webhooks and deliveries."""
