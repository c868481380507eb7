"""What became of a task, in one object: values, files, log, usage and cost, each when asked for."""
