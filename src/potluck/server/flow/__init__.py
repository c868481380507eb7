"""submit → queue → schedule → lease → execute → report → settle → notify, one file a stage.

Each stage has the same three beats: load, decide (a pure function in `decide/`), apply guarded.
"""
