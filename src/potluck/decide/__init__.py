"""The functional core: every decision is a pure function of its inputs, `now` included.

No I/O, clock, randomness, environment or logging; the import contract checks it. The server, the
tests and the simulations run the same code.
"""
