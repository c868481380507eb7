"""What accounts type about their webhooks."""
