"""What the leader reads: the scheduler feed, nodes, recent usage and the leader row."""
