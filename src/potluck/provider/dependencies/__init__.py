"""Installs the dependencies of scripts, in a sandbox of their own.

preparer               a script's requirements in, a read-only environment out
├── python_facts       version and platform of the sandbox's Python
├── installer          uv in a sandbox: resolves a lock, installs from the lock
│   ├── command_sequence runs inside: one command of uv after the other
│   └── directory_size   ends an installation that grows too large
├── seal               takes over the files that the sandbox left, or refuses them
└── environment_cache  finished environments and cached locks, separate for each account
"""
