"""How fast devices really are, found out by computing on them for a moment."""
