"""Files of tasks on this node: brought, cached, unpacked, collected and sent."""
