"""The result of a task in one object: values, files, log, usage and cost, loaded on access."""
