"""Detects the devices of this machine. One module for each route to devices, with a `find`."""
