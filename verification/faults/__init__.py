"""Fault histories: the server's own flow on PostgreSQL, in virtual time, with seeded faults.

The real code of the server runs: its stages, its loops, its leader, its SQL. Providers, consumers
and the network between them are simulated. The invariants are checked after every transaction.
"""
