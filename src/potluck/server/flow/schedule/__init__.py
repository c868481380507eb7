"""Schedule: the leader plans and assigns. Start with `schedule`."""
