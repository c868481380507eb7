"""Which devices this machine has. One vendor (or route to devices) a file, each with a `find`."""
