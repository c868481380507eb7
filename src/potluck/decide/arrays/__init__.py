"""How arrays are cut into ranges, and which of their items count."""
