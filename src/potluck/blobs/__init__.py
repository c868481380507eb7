"""Bytes that outlive a request: logs, inputs, results, files; in a directory or an object store."""
