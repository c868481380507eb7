"""The raw network of a sandbox: an interface whose packets are checked one by one.

`packet_relay.py` is a process beside the sandbox. It holds the other end of the sandbox's
interface, and passes what `packets.py` allows to passt, which connects with sockets of the host.
`raw_service.py` is the provider's side: bytes, names, and which addresses are the owner's.
"""
