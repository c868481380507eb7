"""The free capacity of the pool, and which tasks fit in it. The entry module is `capacity`."""
