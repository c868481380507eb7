"""What a granted device needs inside a sandbox. One vendor a file, put together in `expose.py`."""
