"""Which conditions hold, how alerts change, and which messages are due."""
