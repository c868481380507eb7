"""How each kind of task becomes a command in a sandbox, one kind a file."""
