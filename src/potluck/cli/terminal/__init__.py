"""Output to a terminal: tables, progress, prompts, units and error messages."""
