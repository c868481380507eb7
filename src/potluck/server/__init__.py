"""The central server: `flow/` has one file per stage, `loops/` one duty per file, `api/` the
routes.
"""
