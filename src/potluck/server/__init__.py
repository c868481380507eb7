"""The central server. `flow/` has one file a stage, `loops/` one duty a file, `api/` the routes."""
