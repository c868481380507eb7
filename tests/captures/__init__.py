"""Pictures for the documentation: real commands in a real terminal, in a pool that is played."""
