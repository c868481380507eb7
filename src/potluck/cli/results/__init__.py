"""Commands for the logs, files and results of a task."""
