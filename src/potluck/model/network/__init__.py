"""Which hosts tasks may reach: patterns, and which addresses are public."""
