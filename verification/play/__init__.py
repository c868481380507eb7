"""Whether consumers or providers gain by causing ends of attempts on purpose.

A pool in virtual time, with the server's own decisions: `decide/scheduler.py` places tasks,
`decide/attempt_change.py` ends attempts, decides their charges and the next try.
"""
