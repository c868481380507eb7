"""Commands for people, one file a command.

Whatever is slow to import is imported inside the functions that need it, so that help and the quick
commands answer at once.
"""
