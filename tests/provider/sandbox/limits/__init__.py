"""The limits of a task, tried on every driver."""
