"""One attempt on this node: its runner, log, items, journal and usage."""
