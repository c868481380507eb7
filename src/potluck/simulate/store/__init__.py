"""A model of the store: PostgreSQL as far as the flow uses it, one function for each statement.

`tests/simulate/` proves it: random histories of store verbs give the same answers and the same rows
here and in a real PostgreSQL, and histories of several connections at once those of some order.
"""
