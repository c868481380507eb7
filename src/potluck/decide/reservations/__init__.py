"""What will probably be, and what is kept for whom. The door is `reserve`."""
