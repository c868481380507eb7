"""Commands about what a task left: logs, files, results and usage."""
