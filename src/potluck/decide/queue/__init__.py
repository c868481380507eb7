"""Who waits, in which lines, and what keeps a line from moving. The door is `lines`."""
