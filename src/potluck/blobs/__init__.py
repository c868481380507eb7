"""Blobs (logs, inputs, results, files) in a directory or an object store."""
