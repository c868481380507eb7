"""What runs inside: the standard library is all that it has, and each module adds its probes."""
