"""The OpenAPI document: what the handlers say, in the order in which people meet it."""
