"""Commands for owners of machines: on this machine, or on a remote one through the server."""
