"""What the leader reads: the scheduler feed, recent usage and the leader row."""
