"""The central server: `flow/` holds the stages, `loops/` background duties, `api/` the routes."""
