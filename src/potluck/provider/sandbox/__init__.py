"""Where a stranger's code runs. One driver a file, on the interface in `driver.py`."""
