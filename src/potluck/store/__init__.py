"""PostgreSQL, the source of truth. SQL and rows stay in this folder; its functions are domain
verbs.
"""
