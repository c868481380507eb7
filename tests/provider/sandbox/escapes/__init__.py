"""Attempts to get out of a sandbox, and the machine that they are made on."""
