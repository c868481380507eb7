"""Bytes that outlive a request: logs, inputs, results and files, in a directory."""
