"""Backup and restore of the database and the blobs: `run.py` and `restore.py` are the entries."""
