"""PostgreSQL, the source of truth. SQL and rows stay here; the functions are domain verbs."""
