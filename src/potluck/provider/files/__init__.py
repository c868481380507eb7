"""Files of tasks on this node: fetched, cached, unpacked, collected and uploaded."""
