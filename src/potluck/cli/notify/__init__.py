"""How a person who looked away hears that a task has ended."""
