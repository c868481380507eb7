"""What a granted device needs inside a sandbox. One module for each vendor; see `expose.py`."""
