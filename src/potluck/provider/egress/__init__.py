"""The way out of a sandbox: one proxy of the provider, for tasks and for installations.

proxy        the HTTP proxy, on a Unix socket of the provider
├── request  what a client asks of it
└── guard    where it connects to, and opening that connection
relay        connects a listener inside a sandbox with the proxy's socket
"""
