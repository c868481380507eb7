"""Potluck: everyone brings a GPU.

The folders are the flow: `model` and `wire` are the values that everyone shares, `decide` chooses,
`store`, `live` and `blobs` remember, `server`, `provider` and `consumer` act, `cli` is for people.
"""

__version__ = "0.1.0"
