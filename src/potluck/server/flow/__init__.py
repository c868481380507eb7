"""submit → queue → schedule → lease → execute → report → settle → notify, one file per stage.

Each stage loads, decides (a pure function in `decide/`) and applies with guards.
"""
