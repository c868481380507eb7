"""My tasks and the pool, on the whole screen."""
