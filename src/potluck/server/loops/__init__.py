"""Background duties, one per file, each with a `run_once`; most are the leader's."""
