"""The one way from the server to an address that a stranger has named."""
