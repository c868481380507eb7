"""What kind of file it is, by its name: whether to show it as a picture or as a table."""

import mimetypes

PICTURES = {
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/svg+xml",
}
TABLES = {
    "text/csv",
    "text/tab-separated-values",
    "application/vnd.apache.parquet",
}
DRAWN = {"text/csv", "text/tab-separated-values"}  # of the tables, those that are plain text
# The system's own list differs from machine to machine.
_KNOWN = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "txt": "text/plain",
    "log": "text/plain",
    "md": "text/markdown",
    "npy": "application/x-npy",
    "npz": "application/x-npz",
    "pt": "application/x-pytorch",
    "safetensors": "application/x-safetensors",
}


def media_type(path: str) -> str:
    """A guess from the name; nobody has looked inside."""
    ending = path.rpartition(".")[2].lower() if "." in path else ""
    return _KNOWN.get(ending) or mimetypes.guess_type(path)[0] or "application/octet-stream"
