"""The OpenAPI document, built from the declared operations."""
