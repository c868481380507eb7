"""Checks of this machine: each with the actual value, the needed one, and a fix."""
