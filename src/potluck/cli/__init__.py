"""The command-line interface, one module per command.

Slow imports happen inside the functions that need them, so that help and simple commands start
fast.
"""
