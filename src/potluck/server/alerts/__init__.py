"""Built-in alerting: what is observed, how alerts change, and how messages are delivered."""
