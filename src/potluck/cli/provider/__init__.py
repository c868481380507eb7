"""What owners of machines type: here, or about a machine elsewhere."""
