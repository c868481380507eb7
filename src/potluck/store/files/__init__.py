"""Blobs, uploads and their garbage collection."""
