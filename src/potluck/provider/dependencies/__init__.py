"""The dependencies of a script, installed by a stranger's will inside a sandbox of their own.

preparer      the stage itself: a script's needs in, a read-only environment out
├── python_facts  what the sandbox's Python is
├── installer     uv, confined: resolve to a lock, install from the lock
│   ├── forward   runs inside: the way from uv to the proxy's socket
│   ├── proxy     runs outside: lets the package index through, and nothing else
│   └── size      ends an installation that grows too large
├── seal          what the sandbox left is made ours, or refused
└── shelf         finished environments and remembered locks, for each account its own
"""
