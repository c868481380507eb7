"""Background duties of the leader, one per file, each with a `run_once`."""
