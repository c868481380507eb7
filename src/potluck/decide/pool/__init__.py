"""What is free in the pool, and who could have it. The door is `capacity`."""
