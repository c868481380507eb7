"""The whole flow with virtual time, through faults that a seed chooses, on the model of the store.

The true code of the server runs: its stages, its loops, its leader. Providers, consumers and the
network between them are simulated here. After every transaction the invariants are checked.
"""
