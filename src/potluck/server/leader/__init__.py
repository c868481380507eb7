"""What the instance that leads keeps in memory, and how it keeps it true."""
