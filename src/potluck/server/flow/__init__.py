"""submit → queue → schedule → lease → execute → report → settle → notify, a folder each.

Each stage loads, decides (a pure function in `decide/`) and applies with guards.
"""
