"""The functional core: whatever chooses takes values, `now` among them, and returns a value.

No I/O, no clock, no randomness, no environment, no logging: the import contract checks it. The same
code decides in the server, in tests and in simulation.
"""
