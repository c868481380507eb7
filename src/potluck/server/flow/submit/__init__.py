"""Submit: a task enters the queue, with the files that it names. Start with `submit`."""
