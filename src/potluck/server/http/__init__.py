"""The edge: connections, TLS, who may connect, and what every answer says to a browser.

It stands between strangers and the routes, and holds each connection to a time and a size.
"""
