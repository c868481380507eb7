"""The HTTP edge: connections, TLS, trusted proxies, and security headers.

It limits the time and the size of every connection and request.
"""
