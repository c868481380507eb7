"""Report: a node reports how an attempt progresses and ends. Start with `report`."""
