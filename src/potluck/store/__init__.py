"""PostgreSQL, the only truth. No SQL and no row leaves this folder; it speaks domain verbs."""
